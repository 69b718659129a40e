//! Who may do what: an explicit Deny, else an Allow, else not.
//!
//! | asks | is allowed |
//! |---|---|
//! | the root of the queue's account | unless the queue's policy denies |
//! | a user of that account | if its own policy or the queue's allows, and neither denies |
//! | the root of another account | if the queue's policy allows |
//! | a user of another account | if its own policy and the queue's allow, and neither denies |
//!
//! Some actions are never for other accounts ([`Action::is_grantable`]). And a Deny does not keep the
//! root of the queue's account from reading and setting the queue's attributes: where AWS has a special
//! task for that (`SQSUnlockQueuePolicy`), here nobody can lock out those who must mend a policy.

use super::context::Surroundings;
use super::document::{Effect, IdentityPolicy, QueuePolicy, Statement};
use super::principal::{Principal, Reach};
use crate::action::Action;
use crate::queue_name::AccountId;

/// A request as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// For what.
    pub action: Action,
    /// The account that the resource belongs to.
    pub owner: &'a AccountId,
    /// The ARN of the queue; for what is about no one queue, one without a name.
    pub resource: &'a str,
    /// What else is known of the request.
    pub around: &'a Surroundings<'a>,
}

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allowed,
    /// A statement denies it.
    Denied(Where),
    /// No statement that would have to allows it.
    NotAllowed,
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the policy of the queue.
    Queue,
    /// In the policy of the access key.
    Key,
}

/// What one policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Denies,
    Allows(Reach),
    Silent,
}

impl Asked<'_> {
    /// Decides by the policy of the queue and by that of the access key, which a user always has and a
    /// root never.
    #[must_use]
    pub fn decide(
        &self,
        queue: Option<&QueuePolicy>,
        identity: Option<&IdentityPolicy>,
    ) -> Decision {
        let user = self.principal.user_name().is_some();
        assert_eq!(
            user,
            identity.is_some(),
            "a user has a policy, and a root has none"
        );
        let key = identity.map_or(Verdict::Allows(Reach::Direct), |policy| {
            self.verdict(&policy.0)
        });
        let queue = queue.map_or(Verdict::Silent, |policy| self.verdict(&policy.0));
        match (key, queue) {
            (Verdict::Denies, _) => Decision::Denied(Where::Key),
            (_, Verdict::Denies) if !self.mends(identity) => Decision::Denied(Where::Queue),
            _ if self.is_allowed(key, queue) => Decision::Allowed,
            _ => Decision::NotAllowed,
        }
    }

    /// Whether it is the owner's own root that mends a policy.
    fn mends(&self, identity: Option<&IdentityPolicy>) -> bool {
        identity.is_none()
            && self.principal.account() == self.owner
            && matches!(
                self.action,
                Action::GetQueueAttributes | Action::SetQueueAttributes
            )
    }

    fn is_allowed(&self, key: Verdict, queue: Verdict) -> bool {
        let by_key = matches!(key, Verdict::Allows(_));
        if self.principal.account() == self.owner {
            return by_key || queue == Verdict::Allows(Reach::Direct);
        }
        by_key && matches!(queue, Verdict::Allows(_)) && self.action.is_grantable()
    }

    fn verdict(&self, statements: &[Statement]) -> Verdict {
        let applying = statements.iter().filter_map(|statement| {
            let reach = self.reach(statement);
            (reach != Reach::None).then_some((statement.effect, reach))
        });
        let mut verdict = Verdict::Silent;
        for (effect, reach) in applying {
            verdict = match (effect, verdict) {
                (Effect::Deny, _) => return Verdict::Denies,
                (Effect::Allow, Verdict::Allows(before)) => Verdict::Allows(before.max(reach)),
                (Effect::Allow, _) => Verdict::Allows(reach),
            };
        }
        verdict
    }

    /// How a statement applies, if it does.
    fn reach(&self, statement: &Statement) -> Reach {
        let reach = match &statement.principals {
            None => Reach::Direct,
            Some(named) => match (named.inverted, named.items.reach(self.principal)) {
                (false, reach) => reach,
                (true, Reach::None) => Reach::Direct,
                (true, Reach::Account | Reach::Direct) => Reach::None,
            },
        };
        let mut conditions = statement.conditions.iter();
        let applies = reach != Reach::None
            && statement.actions.includes(self.action)
            && statement.resources.includes(self.resource)
            && conditions.all(|condition| condition.holds(self.principal, self.around));
        if applies { reach } else { Reach::None }
    }
}
