//! Who may do what under policies.
//!
//! Decisions are compared with those of a second evaluator, which knows the texts of `pools` by
//! their meaning and reads no policy: who is meant by a principal, which addresses a network has, when
//! a date is. It shares no code with the first one.

use std::net::IpAddr;

use hikyaku_sqs::action::Action;
use hikyaku_sqs::policy::{Asked, Decision, IdentityPolicy, QueuePolicy, Surroundings, Where};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use super::pools::{
    ACTIONS, Around, CALLERS, CONDITIONS, Meant, NEW_YEAR, OWNER, PRINCIPALS, QUEUES, RESOURCES,
    Who, account,
};

/// What may stand around an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    IfExists,
    ForAll,
    ForAny,
    ForAnyIfExists,
}

/// A condition of a policy: on a key alone whether it is there, or on its value.
#[derive(Clone, Copy, Debug)]
enum Condition {
    Null { of: usize, absent: bool },
    Compare { of: usize, denies: bool, form: Form },
}

impl Condition {
    fn write(self) -> (String, &'static str, Value) {
        match self {
            Self::Null { of, absent } => ("Null".to_owned(), CONDITIONS[of].2, json!(absent)),
            Self::Compare { of, denies, form } => {
                let (affirms, inverse, key, value, _) = CONDITIONS[of];
                let name = if denies {
                    inverse.unwrap_or(affirms)
                } else {
                    affirms
                };
                let (before, after) = match form {
                    Form::Plain => ("", ""),
                    Form::IfExists => ("", "IfExists"),
                    Form::ForAll => ("ForAllValues:", ""),
                    Form::ForAny => ("ForAnyValue:", ""),
                    Form::ForAnyIfExists => ("ForAnyValue:", "IfExists"),
                };
                (format!("{before}{name}{after}"), key, json!([value]))
            }
        }
    }

    fn holds(self, who: Who, around: &Around) -> bool {
        match self {
            Self::Null { of, absent } => (CONDITIONS[of].4)(who, around).is_none() == absent,
            Self::Compare { of, denies, form } => {
                let denies = denies && CONDITIONS[of].1.is_some();
                match (CONDITIONS[of].4)(who, around) {
                    Some(fits) => fits ^ denies,
                    None => match form {
                        Form::Plain => denies,
                        Form::ForAny => false,
                        Form::IfExists | Form::ForAll | Form::ForAnyIfExists => true,
                    },
                }
            }
        }
    }
}

/// A statement, by what it is made of in the pools; `not` for the elements that are inverted.
#[derive(Clone, Debug)]
struct Statement {
    allows: bool,
    principals: Vec<usize>,
    not_principals: bool,
    actions: Vec<usize>,
    not_actions: bool,
    resources: Vec<usize>,
    not_resources: bool,
    conditions: Vec<Condition>,
}

impl Statement {
    fn inverts_principals(&self) -> bool {
        self.not_principals && !self.allows
    }

    fn write(&self, names_principals: bool) -> Value {
        let element = |name: &str, not: bool| match not {
            true => format!("Not{name}"),
            false => name.to_owned(),
        };
        let mut statement = Map::new();
        let effect = if self.allows { "Allow" } else { "Deny" };
        statement.insert("Effect".to_owned(), json!(effect));
        if names_principals {
            let mut kinds: Map<String, Value> = Map::new();
            for index in &self.principals {
                let (kind, name, _) = PRINCIPALS[*index];
                let names = kinds.entry(kind).or_insert_with(|| json!([]));
                names.as_array_mut().unwrap().push(json!(name));
            }
            let name = element("Principal", self.inverts_principals());
            statement.insert(name, Value::Object(kinds));
        }
        let actions: Vec<&str> = self.actions.iter().map(|it| ACTIONS[*it].0).collect();
        statement.insert(element("Action", self.not_actions), json!(actions));
        let resources: Vec<&str> = self.resources.iter().map(|it| RESOURCES[*it].0).collect();
        statement.insert(element("Resource", self.not_resources), json!(resources));
        let mut operators: Map<String, Value> = Map::new();
        for condition in &self.conditions {
            let (operator, key, values) = condition.write();
            let keys = operators.entry(operator).or_insert_with(|| json!({}));
            keys.as_object_mut().unwrap().insert(key.to_owned(), values);
        }
        if !operators.is_empty() {
            statement.insert("Condition".to_owned(), Value::Object(operators));
        }
        Value::Object(statement)
    }

    fn meant(&self, who: Who) -> Meant {
        let meant = self.principals.iter().map(|it| (PRINCIPALS[*it].2)(who));
        match (self.inverts_principals(), meant.max().unwrap_or(Meant::No)) {
            (false, meant) => meant,
            (true, Meant::No) => Meant::Yes,
            (true, Meant::ByAccount | Meant::Yes) => Meant::No,
        }
    }

    fn applies(&self, case: &Case) -> bool {
        let action = self.actions.iter().any(|it| (ACTIONS[*it].1)(case.action));
        let resource = self
            .resources
            .iter()
            .any(|it| (RESOURCES[*it].1)(case.queue));
        (action ^ self.not_actions)
            && (resource ^ self.not_resources)
            && self
                .conditions
                .iter()
                .all(|it| it.holds(case.who, &case.around))
    }
}

/// A request, the queue's policy, and that of the caller's key if it is a user's.
#[derive(Clone, Debug)]
struct Case {
    who: Who,
    action: Action,
    queue: &'static str,
    around: Around,
    on_queue: Option<Vec<Statement>>,
    on_key: Vec<Statement>,
}

impl Case {
    /// The second evaluator.
    fn expected(&self) -> Decision {
        let user = self.who.1.is_some();
        let key: Vec<_> = self
            .on_key
            .iter()
            .filter(|it| user && it.applies(self))
            .collect();
        let queue = self.on_queue.iter().flatten();
        let queue = queue.filter(|it| it.applies(self));
        let queue: Vec<_> = queue.map(|it| (it.allows, it.meant(self.who))).collect();

        let own = self.who.0 == OWNER;
        let mends = own
            && !user
            && matches!(
                self.action,
                Action::GetQueueAttributes | Action::SetQueueAttributes
            );
        if key.iter().any(|it| !it.allows) {
            return Decision::Denied(Where::Key);
        }
        if !mends
            && queue
                .iter()
                .any(|(allows, meant)| !allows && *meant != Meant::No)
        {
            return Decision::Denied(Where::Queue);
        }
        let key_allows = !user || !key.is_empty();
        let queue_allows = |least| {
            queue
                .iter()
                .any(|(allows, meant)| *allows && *meant >= least)
        };
        // A root that a Deny on the queue spares is allowed as if there were none.
        let allowed = if own {
            key_allows || queue_allows(Meant::Yes)
        } else {
            key_allows && queue_allows(Meant::ByAccount) && may_be_given(self.action)
        };
        if allowed {
            Decision::Allowed
        } else {
            Decision::NotAllowed
        }
    }

    fn decided(&self) -> Decision {
        let write = |statements: &[Statement], on_queue| {
            let statements = statements.iter().map(|it| it.write(on_queue));
            let statements: Vec<Value> = statements.collect();
            json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
        };
        let on_queue = self.on_queue.as_ref().map(|statements| {
            let text = write(statements, true);
            QueuePolicy::parse(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
        });
        let on_key = self.who.1.map(|_| {
            let text = write(&self.on_key, false);
            IdentityPolicy::parse(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
        });
        let around = Surroundings {
            source: self.around.source.map(|it| it.parse::<IpAddr>().unwrap()),
            encrypted: self.around.encrypted,
            now_ms: self.around.now_s * 1_000 + 7,
            user_agent: self.around.agent,
        };
        let asked = Asked {
            principal: &self.who.principal(),
            action: self.action,
            owner: &account(OWNER),
            resource: self.queue,
            around: &around,
        };
        asked.decide(on_queue.as_ref(), on_key.as_ref())
    }
}

fn may_be_given(action: Action) -> bool {
    let name = action.name();
    let given = [
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "PurgeQueue",
        "ListDeadLetterSourceQueues",
    ];
    given.contains(&name.strip_suffix("Batch").unwrap_or(name))
}

fn some_of(pool: usize) -> impl Strategy<Value = Vec<usize>> {
    subsequence((0..pool).collect::<Vec<_>>(), 1..=3)
}

fn condition() -> impl Strategy<Value = Condition> {
    let form = select(vec![
        Form::Plain,
        Form::IfExists,
        Form::ForAll,
        Form::ForAny,
        Form::ForAnyIfExists,
    ]);
    let of = 0..CONDITIONS.len();
    prop_oneof![
        1 => (of.clone(), any::<bool>()).prop_map(|(of, absent)| Condition::Null { of, absent }),
        5 => (of, any::<bool>(), form)
            .prop_map(|(of, denies, form)| Condition::Compare { of, denies, form }),
    ]
}

prop_compose! {
    fn statement()(
        allows in prop::bool::weighted(0.7),
        principals in some_of(PRINCIPALS.len()),
        not_principals in prop::bool::weighted(0.2),
        actions in some_of(ACTIONS.len()),
        not_actions in prop::bool::weighted(0.1),
        resources in some_of(RESOURCES.len()),
        not_resources in prop::bool::weighted(0.1),
        // Two of a kind would be written over each other.
        conditions in vec(condition(), 0..3).prop_filter("one of each", |all| {
            let written: Vec<_> = all.iter().map(|it| it.write()).collect();
            written.len() < 2 || (&written[0].0, written[0].1) != (&written[1].0, written[1].1)
        }),
    ) -> Statement {
        Statement {
            allows, principals, not_principals, actions, not_actions, resources, not_resources,
            conditions,
        }
    }
}

prop_compose! {
    fn around()(
        source in select(vec![
            None, Some("10.1.2.3"), Some("::ffff:10.1.2.3"), Some("192.0.2.1"),
            Some("2001:db8::9"), Some("2001:db9::9"),
        ]),
        encrypted in any::<bool>(),
        now_s in select(vec![NEW_YEAR - 1, NEW_YEAR, NEW_YEAR + 1]),
        agent in select(vec![None, Some("Boto3/1.40"), Some("curl")]),
    ) -> Around {
        Around { source, encrypted, now_s, agent }
    }
}

prop_compose! {
    fn case()(
        who in select(CALLERS.to_vec()),
        action in select(Action::ALL.to_vec()),
        queue in select(QUEUES.to_vec()),
        around in around(),
        on_queue in proptest::option::weighted(0.9, vec(statement(), 0..4)),
        on_key in vec(statement(), 0..3),
    ) -> Case {
        Case { who, action, queue, around, on_queue, on_key }
    }
}

/// Few enough for every change, unless more are asked for.
fn cases() -> u32 {
    let asked = std::env::var("HIKYAKU_POLICY_CASES").ok();
    asked.map_or(5_000, |number| number.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn both_evaluators_decide_alike(case in case()) {
        prop_assert_eq!(case.decided(), case.expected(), "{:#?}", case);
    }
}

/// Otherwise the comparison would mostly be one of refusals.
#[test]
fn every_decision_is_met_often() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut met = [0_u32; 4];
    for _ in 0..2_000 {
        let case = case().new_tree(&mut runner).unwrap().current();
        met[match case.expected() {
            Decision::Allowed => 0,
            Decision::NotAllowed => 1,
            Decision::Denied(Where::Queue) => 2,
            Decision::Denied(Where::Key) => 3,
        }] += 1;
    }
    assert!(met.iter().all(|count| *count > 50), "{met:?}");
}
