//! The gRPC face of this node towards its peers.

use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt};
use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_server::{Peer, PeerServer};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use super::MESSAGE_BYTES_MAX;
use super::answers::Answering;
use crate::{healing, snapshot};

/// Takes the streams of all peers.
pub struct PeerService {
    answering: Answering,
    stop: watch::Receiver<bool>,
}

impl PeerService {
    /// Streams end when `stop` says so, or is gone.
    pub fn server(answering: Answering, stop: watch::Receiver<bool>) -> PeerServer<Self> {
        PeerServer::new(Self { answering, stop })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn until_stop<T: Send + 'static>(
        &self,
        stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> Response<Streamed<T>> {
        let mut stop = self.stop.clone();
        let stopped = async move {
            // An error means that the node is gone, which is a stop as well.
            stop.wait_for(|stop| *stop).await.ok();
        };
        Response::new(stream.take_until(Box::pin(stopped)).boxed())
    }
}

type Streamed<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Peer for PeerService {
    type ControlStream = Streamed<wire::Answers>;
    type AppendStream = Streamed<wire::Answers>;
    type SnapshotStream = Streamed<wire::SnapshotProgress>;

    async fn control(
        &self,
        request: Request<Streaming<wire::Requests>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let answers = self.answering.clone().answers(request.into_inner());
        Ok(self.until_stop(answers))
    }

    async fn append(
        &self,
        request: Request<Streaming<wire::Requests>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let answers = self.answering.clone().answers(request.into_inner());
        Ok(self.until_stop(answers))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<wire::SnapshotChunk>>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let directory = self.answering.directory.clone();
        let progress = snapshot::receive(directory, request.into_inner());
        Ok(self.until_stop(progress))
    }

    async fn bodies(
        &self,
        request: Request<wire::BodiesRequest>,
    ) -> Result<Response<wire::BodiesResponse>, Status> {
        let directory = &self.answering.directory;
        let answer = healing::answer(directory, request.into_inner()).await;
        Ok(Response::new(answer))
    }
}
