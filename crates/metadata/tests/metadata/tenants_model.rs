//! The tenants of the second metadata: a list of whatever was created, searched from end to end.

use hikyaku_metadata::{
    AccessKeyRecord, AccessKeyState, ChangeAccessKey, ChangeAccessKeyError, CreateAccessKey,
    CreateAccessKeyError, CreateTenant, CreateTenantError, Metadata, SetTenantState,
    SetTenantStateError, TenantId, TenantState,
};

/// Every tenant that ever was.
#[derive(Debug, Default)]
pub struct Tenants {
    all: Vec<Tenant>,
}

#[derive(Debug)]
struct Tenant {
    id: TenantId,
    name: String,
    state: TenantState,
    created_at: u64,
    keys: Vec<(String, AccessKeyRecord)>,
}

impl Tenants {
    fn find(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.all.iter_mut().find(|it| it.id == id)
    }

    /// Whether queues may be created.
    pub fn may_create(&self, id: TenantId) -> bool {
        let tenant = self.all.iter().find(|it| it.id == id);
        tenant.is_none_or(|it| it.state == TenantState::Active)
    }

    pub fn create(&mut self, now: u64, asked: &CreateTenant) -> Result<bool, CreateTenantError> {
        let first = asked.name.chars().next();
        if !first.is_some_and(|it| it.is_ascii_lowercase()) || asked.name.contains('_') {
            return Err(CreateTenantError::InvalidName);
        }
        if asked.name == "default" {
            return match asked.tenant {
                TenantId::DEFAULT => Ok(true),
                _ => Err(CreateTenantError::NameTaken(TenantId::DEFAULT)),
            };
        }
        let mut living = self
            .all
            .iter()
            .filter(|it| it.state != TenantState::Deleted);
        if let Some(namesake) = living.find(|it| it.name == asked.name) {
            return match namesake.id == asked.tenant {
                true => Ok(true),
                false => Err(CreateTenantError::NameTaken(namesake.id)),
            };
        }
        if asked.tenant == TenantId::DEFAULT || self.find(asked.tenant).is_some() {
            return Err(CreateTenantError::IdTaken);
        }
        self.all.push(Tenant {
            id: asked.tenant,
            name: asked.name.clone(),
            state: TenantState::Active,
            created_at: now,
            keys: Vec::new(),
        });
        Ok(false)
    }

    pub fn set_state(
        &mut self,
        asked: SetTenantState,
        has_queues: bool,
    ) -> Result<TenantState, SetTenantStateError> {
        let wants_end = matches!(asked.state, TenantState::Deleting | TenantState::Deleted);
        if asked.tenant == TenantId::DEFAULT {
            return match asked.state {
                TenantState::Active => Ok(TenantState::Active),
                _ => Err(SetTenantStateError::DefaultStays),
            };
        }
        let tenant = self.find(asked.tenant);
        let tenant = tenant.ok_or(SetTenantStateError::NoSuchTenant(asked.tenant))?;
        match tenant.state {
            TenantState::Deleting | TenantState::Deleted if !wants_end => {
                return Err(SetTenantStateError::Deleted(asked.tenant));
            }
            TenantState::Deleting | TenantState::Deleted => {}
            TenantState::Active | TenantState::Suspended if wants_end => {
                tenant.keys.clear();
                tenant.state = match has_queues {
                    true => TenantState::Deleting,
                    false => TenantState::Deleted,
                };
            }
            TenantState::Active | TenantState::Suspended => tenant.state = asked.state,
        }
        Ok(tenant.state)
    }

    pub fn create_key(
        &mut self,
        now: u64,
        asked: &CreateAccessKey,
    ) -> Result<(), CreateAccessKeyError> {
        if asked.description.len() > 256 {
            return Err(CreateAccessKeyError::TooLong);
        }
        let mut keys = self.all.iter().flat_map(|it| &it.keys);
        let taken = keys.any(|(id, _)| *id == asked.key);
        match self.find(asked.tenant) {
            None if asked.tenant != TenantId::DEFAULT => {
                return Err(CreateAccessKeyError::NoSuchTenant(asked.tenant));
            }
            Some(tenant)
                if matches!(tenant.state, TenantState::Deleting | TenantState::Deleted) =>
            {
                return Err(CreateAccessKeyError::Deleted(asked.tenant));
            }
            Some(_) | None => {}
        }
        if taken {
            return Err(CreateAccessKeyError::IdTaken);
        }
        if self.find(asked.tenant).is_none() {
            self.all.push(Tenant {
                id: TenantId::DEFAULT,
                name: "default".to_owned(),
                state: TenantState::Active,
                created_at: now,
                keys: Vec::new(),
            });
        }
        let tenant = self.find(asked.tenant).expect("it is there by now");
        let record = AccessKeyRecord {
            sealed: asked.sealed.clone(),
            state: AccessKeyState::Active,
            description: asked.description.clone(),
            created_at_ms: now,
        };
        tenant.keys.push((asked.key.clone(), record));
        Ok(())
    }

    pub fn change_key(&mut self, asked: &ChangeAccessKey) -> Result<(), ChangeAccessKeyError> {
        for tenant in &mut self.all {
            let Some(at) = tenant.keys.iter().position(|(id, _)| *id == asked.key) else {
                continue;
            };
            match asked.state {
                Some(state) => tenant.keys[at].1.state = state,
                None => drop(tenant.keys.remove(at)),
            }
            return Ok(());
        }
        Err(ChangeAccessKeyError::NoSuchKey)
    }

    /// The first tenant that is being deleted is deleted; whose queues are to be dropped.
    pub fn housekeep(&mut self) -> Option<TenantId> {
        let deleting = self
            .all
            .iter_mut()
            .filter(|it| it.state == TenantState::Deleting);
        let first = deleting.min_by_key(|it| it.id)?;
        first.state = TenantState::Deleted;
        Some(first.id)
    }

    pub fn compare(&self, metadata: &Metadata) {
        assert_eq!(metadata.tenants().count(), self.all.len());
        for tenant in &self.all {
            let record = metadata.tenant(tenant.id).expect("the model has it");
            assert_eq!(record.name, tenant.name);
            assert_eq!(record.state, tenant.state, "{tenant:?}");
            assert_eq!(record.created_at_ms, tenant.created_at);
            assert_eq!(record.keys, tenant.keys.iter().cloned().collect());
            for (id, _) in &tenant.keys {
                let owner = metadata.owner_of_key(id);
                assert_eq!(owner.map(|it| it.tenant), Some(tenant.id));
            }
        }
        let keys: usize = self.all.iter().map(|it| it.keys.len()).sum();
        let held: usize = metadata.tenants().map(|it| it.keys.len()).sum();
        assert_eq!(held, keys);
    }
}
