//! A second metadata, slow and plain: lists that are searched from end to end, attributes as texts,
//! every answer kept for ever.

use crate::nodes_model::Nodes;
use crate::script::{PARTITIONS, Texts, texts, value};
use crate::tenants_model::Tenants;
use hikyaku_metadata::{
    AttributeError, AttributeName, Attributes, ChangeSettingsError, Command, CreateQueue,
    CreateQueueError, Created, DeleteQueueError, Envelope, FifoThroughputLimit, FoundError,
    PurgeQueueError, QueueRecord, ReplacePolicy, ReplacePolicyError, Reply, SetAttributesError,
    TagQueueError, TenantId, UntagQueueError, spread,
};
use hikyaku_queue::{DeduplicationScope, PartitionId, QueueId};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that ever was.
#[derive(Debug, Default)]
pub struct Model {
    pub now: u64,
    founded: Option<u128>,
    cooldown_ms: u64,
    pub queues: Vec<Queue>,
    pub nodes: Nodes,
    pub tenants: Tenants,
    answers: Vec<(Envelope, Reply)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub id: QueueId,
    pub tenant: TenantId,
    pub name: String,
    pub fifo: bool,
    pub attributes: Texts,
    pub tags: BTreeMap<String, String>,
    pub created_at: u64,
    pub modified_at: u64,
    pub purged_at: Option<u64>,
    pub purges: u64,
    pub version: u64,
    pub deleted_at: Option<u64>,
    pub spread: Vec<PartitionId>,
    pub draining: BTreeSet<PartitionId>,
    /// The versions that partitions have confirmed, while that is not the current one.
    pub confirmed: BTreeMap<PartitionId, u64>,
}

impl Queue {
    /// What the model believes a record says, for comparing.
    pub fn of(record: &QueueRecord, confirmed: BTreeMap<PartitionId, u64>) -> Self {
        Self {
            id: record.descriptor.id,
            tenant: record.tenant,
            name: record.name.clone(),
            fifo: record.is_fifo(),
            attributes: texts(record),
            tags: record.tags.clone(),
            created_at: record.created_at_ms,
            modified_at: record.modified_at_ms,
            purged_at: record.purged_at_ms,
            purges: record.descriptor.purge_epoch,
            version: record.descriptor.version,
            deleted_at: None,
            spread: record.descriptor.spread.clone(),
            draining: record.descriptor.draining.iter().copied().collect(),
            confirmed,
        }
    }

    fn new_version(&mut self) -> u64 {
        let mut confirmed = BTreeMap::new();
        for partition in self.spread.iter().chain(&self.draining) {
            let before = self.confirmed.get(partition).copied();
            confirmed.insert(*partition, before.unwrap_or(self.version));
        }
        self.confirmed = confirmed;
        self.version += 1;
        self.version
    }
}

impl Model {
    pub fn new() -> Self {
        Self {
            cooldown_ms: 60_000,
            ..Self::default()
        }
    }

    pub fn apply(&mut self, envelope: &Envelope) -> Reply {
        if envelope.not_after < self.now {
            return Reply::Late;
        }
        let before = self
            .answers
            .iter()
            .find(|(it, _)| it.request_id == envelope.request_id);
        if let Some((_, reply)) = before
            && !matches!(
                reply,
                Reply::DescriptorDelivered
                    | Reply::Housekept
                    | Reply::PartitionEmptied
                    | Reply::SpreadWidened
                    | Reply::MoveStepped(_)
            )
        {
            return *reply;
        }
        let reply = self.command(&envelope.command);
        self.answers.push((envelope.clone(), reply));
        reply
    }

    fn command(&mut self, command: &Command) -> Reply {
        match command {
            Command::Found(found) => Reply::Founded(match self.founded {
                Some(id) if id != found.cluster.cluster_id => {
                    Err(FoundError::AlreadyFounded { cluster_id: id })
                }
                Some(_) => Ok(()),
                None => {
                    self.founded = Some(found.cluster.cluster_id);
                    self.nodes.found(&found.cluster, &found.placement);
                    Ok(())
                }
            }),
            Command::CreateQueue(create) => Reply::QueueCreated(self.create(create)),
            Command::DeleteQueue(delete) => Reply::QueueDeleted(self.delete(delete.queue)),
            Command::PurgeQueue(purge) => Reply::QueuePurged(self.purge(purge.queue)),
            Command::SetAttributes(set) => {
                Reply::AttributesSet(self.set(set.queue, &given(&set.attributes)))
            }
            Command::TagQueue(tag) => Reply::Tagged(self.tag(tag.queue, &tag.tags)),
            Command::ReplacePolicy(replace) => Reply::PolicyReplaced(self.replace_policy(replace)),
            Command::UntagQueue(untag) => Reply::Untagged(match self.alive(untag.queue) {
                None => Err(UntagQueueError::NoSuchQueue(untag.queue)),
                Some(queue) => {
                    for key in &untag.keys {
                        queue.tags.remove(key);
                    }
                    Ok(())
                }
            }),
            Command::DescriptorDelivered(delivered) => {
                let (id, version) = (delivered.queue, delivered.version);
                let queue = self.queues.iter_mut().find(|queue| queue.id == id);
                if let Some(queue) = queue
                    && let Some(confirmed) = queue.confirmed.get_mut(&delivered.partition)
                {
                    *confirmed = (*confirmed).max(version);
                    queue.confirmed.retain(|_, it| *it < queue.version);
                }
                Reply::DescriptorDelivered
            }
            Command::PartitionEmptied(emptied) => {
                let queue = self.alive(emptied.queue);
                if let Some(queue) = queue.filter(|it| it.version == emptied.version)
                    && queue.draining.remove(&emptied.partition)
                {
                    queue.new_version();
                }
                Reply::PartitionEmptied
            }
            Command::WidenSpread(widen) => {
                let queue = self.alive(widen.queue);
                let queue = queue.filter(|it| it.version == widen.version && !it.fifo);
                if let Some(queue) = queue.filter(|it| width(&it.attributes) == 0)
                    && queue.spread.len() < PARTITIONS as usize
                {
                    let wider = queue.spread.len() as u32 * 2;
                    queue.spread = spread(queue.id, PARTITIONS, wider);
                    queue.draining.retain(|it| !queue.spread.contains(it));
                    queue.new_version();
                }
                Reply::SpreadWidened
            }
            Command::Housekeep => self.keep_house(),
            Command::ChangeSettings(change) => {
                let delay = change.0.cooldown_ms;
                Reply::SettingsChanged(if delay > 600_000 {
                    Err(ChangeSettingsError::CooldownTooLong(delay))
                } else {
                    self.cooldown_ms = delay;
                    Ok(())
                })
            }
            Command::CreateTenant(create) => {
                Reply::TenantCreated(self.tenants.create(self.now, create))
            }
            Command::SetTenantState(set) => {
                let mut queues = self.queues.iter().filter(|it| it.tenant == set.tenant);
                let has_queues = queues.any(|it| it.deleted_at.is_none());
                Reply::TenantStateSet(self.tenants.set_state(*set, has_queues))
            }
            Command::CreateAccessKey(create) => {
                Reply::AccessKeyCreated(self.tenants.create_key(self.now, create))
            }
            Command::ChangeAccessKey(change) => {
                Reply::AccessKeyChanged(self.tenants.change_key(change))
            }
            other => {
                let reply = self.nodes.command(other);
                reply.expect("the rest is about nodes and replicas")
            }
        }
    }

    fn keep_house(&mut self) -> Reply {
        if let Some(tenant) = self.tenants.housekeep() {
            let now = self.now;
            let of_tenant = |it: &&mut Queue| it.tenant == tenant && it.deleted_at.is_none();
            for queue in self.queues.iter_mut().filter(of_tenant) {
                queue.deleted_at = Some(now);
                queue.new_version();
            }
        }
        Reply::Housekept
    }

    fn alive(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues
            .iter_mut()
            .find(|queue| queue.id == id && queue.deleted_at.is_none())
    }

    fn create(&mut self, create: &CreateQueue) -> Result<Created, CreateQueueError> {
        let given = given(&create.attributes);
        let defaults = default_attributes();
        check(create.fifo, &given, &defaults)?;
        if !self.tenants.may_create(create.tenant) {
            return Err(CreateQueueError::TenantNotActive);
        }
        let same_name = |queue: &&Queue| queue.tenant == create.tenant && queue.name == create.name;
        let namesakes = self.queues.iter().filter(same_name);
        if let Some(queue) = namesakes.clone().find(|queue| queue.deleted_at.is_none()) {
            if queue.fifo != create.fifo {
                return Err(CreateQueueError::ExistsWithDifferent(
                    AttributeName::FifoQueue,
                ));
            }
            let different = given
                .iter()
                .find(|(name, text)| queue.attributes[name] != **text);
            return match different {
                Some((name, _)) => Err(CreateQueueError::ExistsWithDifferent(*name)),
                None => Ok(Created {
                    queue: queue.id,
                    existed: true,
                }),
            };
        }
        let free_at = |at: u64| at + self.cooldown_ms;
        if let Some(at) = namesakes.filter_map(|queue| queue.deleted_at).max()
            && self.now < free_at(at)
        {
            return Err(CreateQueueError::DeletedRecently {
                wait_ms: free_at(at) - self.now,
            });
        }
        let id = QueueId(1 + self.queues.len() as u64);
        let mut attributes = defaults;
        overwrite(&mut attributes, &given);
        let by_group = create.fifo && attributes[&AttributeName::DeduplicationScope] != "queue";
        let width = if by_group { 16 } else { width(&attributes) };
        self.queues.push(Queue {
            id,
            tenant: create.tenant,
            name: create.name.clone(),
            fifo: create.fifo,
            attributes,
            tags: create.tags.clone(),
            created_at: self.now,
            modified_at: self.now,
            purged_at: None,
            purges: 0,
            version: 1,
            deleted_at: None,
            spread: spread(id, PARTITIONS, width),
            draining: BTreeSet::new(),
            confirmed: BTreeMap::new(),
        });
        Ok(Created {
            queue: id,
            existed: false,
        })
    }

    fn delete(&mut self, id: QueueId) -> Result<u64, DeleteQueueError> {
        let now = self.now;
        let queue = self.alive(id).ok_or(DeleteQueueError::NoSuchQueue(id))?;
        queue.deleted_at = Some(now);
        Ok(queue.new_version())
    }

    fn purge(&mut self, id: QueueId) -> Result<u64, PurgeQueueError> {
        let (now, cooldown_ms) = (self.now, self.cooldown_ms);
        let queue = self.alive(id).ok_or(PurgeQueueError::NoSuchQueue(id))?;
        if let Some(at) = queue.purged_at
            && now < at + cooldown_ms
        {
            return Err(PurgeQueueError::InProgress {
                wait_ms: at + cooldown_ms - now,
            });
        }
        queue.purged_at = Some(now);
        queue.purges += 1;
        Ok(queue.new_version())
    }

    fn set(&mut self, id: QueueId, given: &Texts) -> Result<u64, SetAttributesError> {
        let now = self.now;
        let queue = self.alive(id).ok_or(SetAttributesError::NoSuchQueue(id))?;
        check(queue.fifo, given, &queue.attributes)?;
        let before = queue.attributes.clone();
        overwrite(&mut queue.attributes, given);
        queue.modified_at = now;
        let for_partitions = [
            AttributeName::VisibilityTimeout,
            AttributeName::DelaySeconds,
            AttributeName::MessageRetentionPeriod,
        ];
        let told = for_partitions
            .iter()
            .any(|name| before[name] != queue.attributes[name]);
        let before = (queue.spread.clone(), queue.draining.clone());
        if given.contains_key(&AttributeName::Spread) {
            queue.spread = spread(id, PARTITIONS, width(&queue.attributes));
            queue.draining.extend(before.0.iter().copied());
            queue.draining.retain(|it| !queue.spread.contains(it));
        }
        let moved = before != (queue.spread.clone(), queue.draining.clone());
        Ok(if told || moved {
            queue.new_version()
        } else {
            queue.version
        })
    }

    fn replace_policy(&mut self, replace: &ReplacePolicy) -> Result<(), ReplacePolicyError> {
        let (id, now) = (replace.queue, self.now);
        let queue = self.alive(id).ok_or(ReplacePolicyError::NoSuchQueue(id))?;
        let held = queue.attributes.get_mut(&AttributeName::Policy).unwrap();
        if *held != replace.current {
            return Err(ReplacePolicyError::Changed);
        }
        held.clone_from(&replace.policy);
        queue.modified_at = now;
        Ok(())
    }

    fn tag(&mut self, id: QueueId, tags: &BTreeMap<String, String>) -> Result<(), TagQueueError> {
        let queue = self.alive(id).ok_or(TagQueueError::NoSuchQueue(id))?;
        let mut all = queue.tags.clone();
        all.extend(tags.clone());
        if all.len() > 50 {
            return Err(TagQueueError::TooManyTags(
                u32::try_from(all.len()).unwrap(),
            ));
        }
        queue.tags = all;
        Ok(())
    }
}

/// The spread that a standard queue's owner wishes for.
fn width(attributes: &Texts) -> u32 {
    attributes[&AttributeName::Spread].parse().unwrap()
}

fn default_attributes() -> Texts {
    let settable = AttributeName::ALL.into_iter().filter(|name| {
        !matches!(
            name,
            AttributeName::FifoQueue | AttributeName::RedriveTarget
        )
    });
    settable
        .map(|name| (name, value(name, 0).to_owned()))
        .collect()
}

fn check(fifo: bool, given: &Texts, current: &Texts) -> Result<(), AttributeError> {
    let fifo_only = [
        AttributeName::ContentBasedDeduplication,
        AttributeName::DeduplicationScope,
        AttributeName::FifoThroughputLimit,
    ];
    if let Some(name) = fifo_only
        .into_iter()
        .find(|name| !fifo && given.contains_key(name))
    {
        return Err(AttributeError::FifoOnly(name));
    }
    if fifo && given.contains_key(&AttributeName::Spread) {
        return Err(AttributeError::StandardOnly(AttributeName::Spread));
    }
    let is = |name, text: &str| given.get(&name).is_some_and(|given| given == text);
    let key = given
        .get(&AttributeName::KmsMasterKeyId)
        .is_some_and(|key| !key.is_empty());
    if key && is(AttributeName::SqsManagedSseEnabled, "true") {
        return Err(AttributeError::TwoEncryptions);
    }
    let mut both = current.clone();
    both.extend(given.clone());
    if both[&AttributeName::FifoThroughputLimit] == "perMessageGroupId"
        && both[&AttributeName::DeduplicationScope] == "queue"
    {
        return Err(AttributeError::ThroughputLimitNeedsMessageGroupScope);
    }
    Ok(())
}

fn overwrite(attributes: &mut Texts, given: &Texts) {
    attributes.extend(given.clone());
    let sse_wanted = given
        .get(&AttributeName::SqsManagedSseEnabled)
        .is_some_and(|text| text == "true");
    if sse_wanted {
        attributes.insert(AttributeName::KmsMasterKeyId, String::new());
    } else if !attributes[&AttributeName::KmsMasterKeyId].is_empty() {
        attributes.insert(AttributeName::SqsManagedSseEnabled, "false".to_owned());
    }
}

fn given(attributes: &Attributes) -> Texts {
    let scope = attributes.deduplication_scope.map(|scope| match scope {
        DeduplicationScope::Queue => "queue".to_owned(),
        DeduplicationScope::MessageGroup => "messageGroup".to_owned(),
    });
    let limit = attributes.fifo_throughput_limit.map(|limit| match limit {
        FifoThroughputLimit::PerQueue => "perQueue".to_owned(),
        FifoThroughputLimit::PerMessageGroupId => "perMessageGroupId".to_owned(),
    });
    let given = [
        (
            AttributeName::VisibilityTimeout,
            attributes.visibility_timeout_ms.map(text),
        ),
        (AttributeName::DelaySeconds, attributes.delay_ms.map(text)),
        (
            AttributeName::MessageRetentionPeriod,
            attributes.retention_ms.map(text),
        ),
        (
            AttributeName::MaximumMessageSize,
            attributes.max_message_bytes.map(text),
        ),
        (
            AttributeName::ReceiveMessageWaitTimeSeconds,
            attributes.receive_wait_seconds.map(text),
        ),
        (
            AttributeName::ContentBasedDeduplication,
            attributes.content_based_deduplication.map(text),
        ),
        (AttributeName::DeduplicationScope, scope),
        (AttributeName::FifoThroughputLimit, limit),
        (AttributeName::Policy, attributes.policy.clone()),
        (
            AttributeName::RedrivePolicy,
            attributes.redrive_policy.clone(),
        ),
        (
            AttributeName::RedriveAllowPolicy,
            attributes.redrive_allow_policy.clone(),
        ),
        (
            AttributeName::KmsMasterKeyId,
            attributes.kms_master_key_id.clone(),
        ),
        (
            AttributeName::KmsDataKeyReusePeriodSeconds,
            attributes.kms_data_key_reuse_seconds.map(text),
        ),
        (
            AttributeName::SqsManagedSseEnabled,
            attributes.sqs_managed_sse.map(text),
        ),
        (AttributeName::Spread, attributes.spread_width.map(text)),
    ];
    given
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
        .collect()
}

fn text(value: impl ToString) -> String {
    value.to_string()
}
