//! What the metrics tell apart, as it is configured.
//!
//! A queue is written `TENANT/NAME`. The page of metrics is open to whoever reaches the port, so it names
//! a queue only when the operator did.

use super::value::Value;
use hikyaku_gateway::ShownQueue;
use hikyaku_metadata::TenantId;
use hikyaku_sqs::queue_name::QueueName;

/// Queues with series of their own: with 15 series each, 1,500 in all.
const QUEUES_MAX: usize = 100;

/// What is counted by itself.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// Queues whose messages are counted by themselves; those of all others are counted together.
    pub queues: Vec<ShownQueue>,
}

impl Value for ShownQueue {
    fn parse(text: &str) -> Result<Self, String> {
        let (tenant, name) = text.split_once('/').ok_or("expected TENANT/NAME")?;
        let tenant = TenantId::parse(tenant).map_err(|error| error.to_string())?;
        let name = QueueName::try_new(name).ok_or_else(|| format!("{name:?} names no queue"))?;
        let name = name.as_str().to_owned();
        Ok(Self { tenant, name })
    }

    fn show(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }
}

impl Value for Vec<ShownQueue> {
    fn parse(text: &str) -> Result<Self, String> {
        let queues = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let queues: Self = queues.map(ShownQueue::parse).collect::<Result<_, _>>()?;
        match queues.len() {
            0..=QUEUES_MAX => Ok(queues),
            many => Err(format!("{many} queues are more than {QUEUES_MAX}")),
        }
    }

    fn show(&self) -> String {
        let shown: Vec<String> = self.iter().map(ShownQueue::show).collect();
        shown.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::{QUEUES_MAX, ShownQueue, Value};

    #[test]
    fn queues_read_back_as_shown() {
        let text = "000000000000/orders,123456789012/pay.fifo";
        let queues = Vec::<ShownQueue>::parse(text).unwrap();
        assert_eq!(queues.len(), 2);
        assert_eq!(queues.show(), text);
    }

    #[test]
    fn what_names_no_queue_is_refused() {
        for text in ["orders", "1/orders", "000000000000/", "000000000000/a b"] {
            assert!(Vec::<ShownQueue>::parse(text).is_err(), "{text}");
        }
        let many = |count: usize| vec!["000000000000/q"; count].join(",");
        assert!(Vec::<ShownQueue>::parse(&many(QUEUES_MAX)).is_ok());
        assert!(Vec::<ShownQueue>::parse(&many(QUEUES_MAX + 1)).is_err());
    }
}
