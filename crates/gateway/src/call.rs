//! What every action needs of the request it belongs to: who asks, where the queues are, what URLs
//! look like to this client.

use std::future::Future;
use std::sync::Arc;

use hikyaku_cluster::Node;
use hikyaku_metadata::{QueueRecord, TenantId};
use hikyaku_sqs::action::Action;
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::queue_name::{AccountId, QueueName};
use hikyaku_sqs::queue_url::{QueueRef, QueueUrl};
use hikyaku_sqs::reply::{Answer, Dialect};
use tokio::sync::watch;

use crate::authorisation::{Granted, Origin};
use crate::config::GatewayLimits;
use crate::failure;
use crate::metrics::Metrics;
use crate::policies::Policies;
use crate::tenant::Tenant;

/// A request under way.
pub(crate) struct Call<'a> {
    /// The cluster.
    pub(crate) node: &'a Node,
    /// What is asked for.
    pub(crate) action: Action,
    /// How it is answered.
    pub(crate) dialect: Dialect,
    /// Who asks.
    pub(crate) tenant: &'a Tenant,
    /// Somebody else's queue that the request may use, and no other of theirs.
    pub(crate) granted: Option<Granted>,
    /// Where the request came from.
    pub(crate) origin: Origin,
    /// What the client says it is.
    pub(crate) user_agent: Option<&'a str>,
    /// The policies of queues, as they were read.
    pub(crate) policies: &'a Policies,
    /// What a tenant may take.
    pub(crate) limits: &'a GatewayLimits,
    /// What queue URLs begin with for this client.
    pub(crate) base_url: &'a str,
    /// The region in ARNs.
    pub(crate) region: &'a str,
    /// Where entries that failed are counted.
    pub(crate) metrics: &'a Metrics,
    /// Becomes true when the server is to stop.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Call<'_> {
    /// Finds the queue for an operation on its messages, or on its descriptor as the metadata has it:
    /// this node's copy is good enough, because what it is used for is checked again there.
    pub(crate) async fn find_queue(&self, queue: &QueueRef) -> Result<Arc<QueueRecord>, SqsError> {
        let (tenant, name) = self.whose(queue)?;
        let found = self.node.find_queue(tenant, name.as_str()).await;
        found
            .map_err(failure::of_control)?
            .ok_or_else(SqsError::queue_does_not_exist)
    }

    /// Finds the queue as of now, for an operation that answers from its record.
    pub(crate) async fn read_queue(&self, queue: &QueueRef) -> Result<Arc<QueueRecord>, SqsError> {
        let (tenant, name) = self.whose(queue)?;
        let found = self.node.read_queue(tenant, name.as_str()).await;
        found
            .map_err(failure::of_control)?
            .ok_or_else(SqsError::queue_does_not_exist)
    }

    /// Finds the queue that an ARN names as of now, for an operation that takes ARNs.
    pub(crate) async fn read_resource(
        &self,
        parameter: &str,
        queue: &QueueRef,
    ) -> Result<Arc<QueueRecord>, SqsError> {
        let found = self.read_queue(queue).await;
        found.map_err(|error| match error.code {
            ErrorCode::QueueDoesNotExist => SqsError::resource_does_not_exist(parameter),
            _ => error,
        })
    }

    /// A queue of another account is, to this one, a queue that does not exist, unless this request may
    /// use it.
    fn whose<'q>(&self, queue: &'q QueueRef) -> Result<(TenantId, &'q QueueName), SqsError> {
        let name = &queue.name;
        let Some(account) = &queue.account else {
            return Ok((self.tenant.id, name));
        };
        match &self.granted {
            _ if *account == self.tenant.account => Ok((self.tenant.id, name)),
            Some(granted) if granted.account == *account && granted.name == *name => {
                Ok((granted.tenant, name))
            }
            Some(_) | None => Err(SqsError::queue_does_not_exist()),
        }
    }

    /// Writes what the action answers, in the dialect it was asked in.
    pub(crate) fn answer(&self, answer: &impl Answer) -> Vec<u8> {
        self.dialect.answer(self.action, answer)
    }

    /// The URL of one of the tenant's queues.
    pub(crate) fn queue_url(&self, name: &QueueName) -> String {
        self.url_at(&self.tenant.account, name)
    }

    /// The URL of a queue, whoever's it is.
    pub(crate) fn url_of(&self, record: &QueueRecord) -> String {
        self.url_at(&account_of(record), &name_of(record))
    }

    fn url_at(&self, account: &AccountId, name: &QueueName) -> String {
        let url = QueueUrl {
            base: self.base_url,
            account,
            name,
        };
        url.to_string()
    }

    /// The ARN of a queue, whoever's it is.
    pub(crate) fn arn_of(&self, record: &QueueRecord) -> QueueArn {
        QueueArn {
            region: self.region.to_owned(),
            account: account_of(record),
            name: name_of(record),
        }
    }

    /// The ARN of one of the tenant's queues.
    pub(crate) fn arn(&self, name: &QueueName) -> QueueArn {
        QueueArn {
            region: self.region.to_owned(),
            account: self.tenant.account.clone(),
            name: name.clone(),
        }
    }

    /// Waits until the server is to stop.
    pub(crate) fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.clone();
        async move {
            // An error means that nobody can ask to stop any more, and is taken as being asked.
            stop.wait_for(|stop| *stop).await.ok();
        }
    }
}

/// The owner of a queue that exists.
pub(crate) fn account_of(record: &QueueRecord) -> AccountId {
    let account = AccountId::try_new(&record.tenant.to_string());
    account.expect("a tenant is written as twelve digits")
}

/// The name of a queue that exists.
pub(crate) fn name_of(record: &QueueRecord) -> QueueName {
    QueueName::try_new(&record.name).expect("a queue was created under a valid name")
}
