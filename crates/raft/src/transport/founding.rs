//! What nodes ask each other before they are a cluster.
//!
//! These requests go to addresses, since nobody's id is known yet, and carry no head. What may be said
//! is decided by whoever implements [`FoundingCalls`].

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_proto::founding as wire;
use hikyaku_proto::founding::founding_client::FoundingClient;
use hikyaku_proto::founding::founding_server::{Founding as FoundingRpc, FoundingServer};
use hyper_util::rt::TokioIo;
use tonic::codegen::http::Uri;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::net::Net;
use super::peers::endpoint;

/// What a node tells others on their way into a cluster.
pub trait FoundingCalls: Send + Sync + 'static {
    /// How far this node is.
    fn look(&self) -> BoxFuture<'_, wire::Standing>;

    /// Promises to be founded by the node that asks, or says why not.
    fn promise(&self, request: wire::PromiseRequest) -> BoxFuture<'_, wire::PromiseResponse>;
}

/// A founding peer did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{address} does not answer: {message}")]
pub struct FoundingError {
    /// The peer's address.
    pub address: String,
    /// What the transport said.
    pub message: String,
}

/// The way to founding peers, by address. Cheap to clone.
#[derive(Clone)]
pub struct FoundingPeers {
    net: Arc<dyn Net>,
    channels: Arc<Mutex<BTreeMap<String, Channel>>>,
}

impl FoundingPeers {
    /// Peers over this network.
    pub fn new(net: Arc<dyn Net>) -> Self {
        Self {
            net,
            channels: Arc::default(),
        }
    }

    /// Asks the node at `address` (`host:port`) how far it is.
    pub async fn look(
        &self,
        address: &str,
        limit: Duration,
    ) -> Result<wire::Standing, FoundingError> {
        let look = async { self.client(address).look(wire::LookRequest {}).await };
        within(address, limit, look).await
    }

    /// Asks the node at `address` for its promise.
    pub async fn promise(
        &self,
        address: &str,
        request: wire::PromiseRequest,
        limit: Duration,
    ) -> Result<wire::PromiseResponse, FoundingError> {
        let promise = async { self.client(address).promise(request).await };
        within(address, limit, promise).await
    }

    fn client(&self, address: &str) -> FoundingClient<Channel> {
        let mut channels = self.channels.lock().expect("no panic under this lock");
        let channel = channels.entry(address.to_owned()).or_insert_with(|| {
            let (net, address) = (Arc::clone(&self.net), address.to_owned());
            let connector = tower::service_fn(move |_: Uri| {
                let connecting = net.connect(address.clone());
                async move { connecting.await.map(TokioIo::new) }
            });
            endpoint().connect_with_connector_lazy(connector)
        });
        FoundingClient::new(channel.clone())
    }
}

async fn within<T>(
    address: &str,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, FoundingError> {
    let message = match tokio::time::timeout(limit, call).await {
        Ok(Ok(response)) => return Ok(response.into_inner()),
        Ok(Err(status)) => status.to_string(),
        Err(_) => "not in time".to_owned(),
    };
    Err(FoundingError {
        address: address.to_owned(),
        message,
    })
}

/// The gRPC face of a [`FoundingCalls`].
pub struct FoundingService {
    calls: Arc<dyn FoundingCalls>,
}

impl FoundingService {
    pub fn server(calls: Arc<dyn FoundingCalls>) -> FoundingServer<Self> {
        FoundingServer::new(Self { calls })
    }
}

#[tonic::async_trait]
impl FoundingRpc for FoundingService {
    async fn look(
        &self,
        _request: Request<wire::LookRequest>,
    ) -> Result<Response<wire::Standing>, Status> {
        Ok(Response::new(self.calls.look().await))
    }

    async fn promise(
        &self,
        request: Request<wire::PromiseRequest>,
    ) -> Result<Response<wire::PromiseResponse>, Status> {
        let response = self.calls.promise(request.into_inner()).await;
        Ok(Response::new(response))
    }
}
