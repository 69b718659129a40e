//! Where clients come in: open from the start, so that a node that waits says for whom, and closed
//! when whoever was there is answered.

use crate::config::Config;
use crate::ending::Leaving;
use crate::run::RunError;
use crate::tls::{Certificate, PairFiles, TlsError};
use hikyaku_cluster::Node;
use hikyaku_gateway::{Access, Gateway, GatewayConfig, GatewayLimits, MetricsSource, listen_tcp};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What an encrypted port needs.
pub(crate) struct Tls {
    certificate: Certificate,
    port: Arc<ServerConfig>,
    admin_port: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files; they have to be good now.
    pub(crate) fn open(files: PairFiles) -> Result<Self, TlsError> {
        let certificate = Certificate::open(files)?;
        let port = Arc::new(certificate.client_port()?);
        let admin_port = Arc::new(certificate.admin_port()?);
        Ok(Self {
            certificate,
            port,
            admin_port,
        })
    }

    /// How the operator's port speaks.
    pub(crate) fn admin_port(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.admin_port)
    }
}

/// The port of clients and whoever answers there.
pub(crate) struct Front {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    waits: watch::Sender<String>,
    stop: watch::Sender<bool>,
    serving: JoinSet<()>,
    following: JoinSet<()>,
}

impl Front {
    /// Opens the port; without `tls` nothing is encrypted. Until a node is introduced, clients are asked
    /// to come again.
    pub(crate) async fn open(
        config: &Config,
        access: Access,
        tls: Option<Tls>,
    ) -> Result<Self, RunError> {
        let address = config.listen;
        let port = listen_tcp(address)
            .await
            .map_err(|source| RunError::Listen { address, source })?;
        let address = port.local_addr().unwrap_or(address);
        let stop = watch::Sender::new(false);
        let waits = watch::Sender::new("opening the volume".to_owned());
        let mut gateway = Gateway::waiting(waits.subscribe(), gateway_config(config), access);
        let mut following = JoinSet::new();
        if let Some(tls) = tls {
            let metrics = tls.certificate.metrics();
            gateway = gateway.with_tls(tls.port);
            gateway.add_metrics(Arc::new(move |page| metrics.write(page)));
            let every = Duration::from_millis(config.tls.reload_ms);
            following.spawn(tls.certificate.follow(every, stop.subscribe()));
        }
        let gateway = Arc::new(gateway);
        let mut serving = JoinSet::new();
        serving.spawn(Arc::clone(&gateway).serve(port, stop.subscribe()));
        Ok(Self {
            gateway,
            address,
            waits,
            stop,
            serving,
            following,
        })
    }

    /// What the node waits for, for whoever asks.
    pub(crate) fn waits(&self) -> watch::Receiver<String> {
        self.waits.subscribe()
    }

    /// Says what the node waits for.
    pub(crate) fn wait(&self, for_what: String) {
        self.waits.send_replace(for_what);
    }

    /// Shows metrics of another part of the server.
    pub(crate) fn add_metrics(&self, source: MetricsSource) {
        self.gateway.add_metrics(source);
    }

    /// From now on this node answers clients.
    pub(crate) fn introduce(&self, node: &Arc<Node>) {
        self.gateway.introduce(Arc::clone(node));
        let address = self.address;
        tracing::info!(node = format_args!("{:x}", node.id()), %address, "serving");
    }

    /// Takes no new connection, and answers what is under way as far as there is time.
    pub(crate) async fn close(mut self, leaving: &mut Leaving) {
        self.stop.send_replace(true);
        let answered = ended(&mut self.serving);
        let answered = tokio::time::timeout_at(leaving.front_deadline(), answered).await;
        let cut_off = match answered {
            Ok(()) => 0,
            Err(_) => self.gateway.connections(),
        };
        leaving.front_closed(self.gateway.ended_polls(), cut_off);
        self.serving.shutdown().await;
        ended(&mut self.following).await;
    }
}

/// Waits for tasks that were asked to end.
async fn ended(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a task died before the stop");
        }
    }
}

fn gateway_config(config: &Config) -> GatewayConfig {
    let limits = &config.limits;
    GatewayConfig {
        public_url: config.public_url.clone(),
        region: config.region.clone(),
        shown_queues: config.metrics.queues.clone(),
        limits: GatewayLimits {
            connections: limits.connections,
            connections_per_address: limits.connections_per_address,
            request_bytes: limits.request_bytes,
            bodies_bytes: limits.bodies_bytes,
            unproved_bytes: limits.unproved_bytes,
            tenant_requests_per_second: limits.tenant_requests_per_second.and_then(NonZeroU32::new),
            tenant_queues: limits.tenant_queues.and_then(NonZeroU32::new),
            header_bytes: limits.header_bytes,
            header_fields: limits.header_fields,
            header_timeout: Duration::from_millis(limits.header_timeout_ms),
            body_stall_timeout: Duration::from_millis(limits.body_stall_timeout_ms),
            read_timeout: Duration::from_millis(limits.read_timeout_ms),
            drain_timeout: Duration::from_millis(limits.stop_timeout_ms),
            handshake_timeout: Duration::from_millis(config.tls.handshake_timeout_ms),
            ..GatewayLimits::default()
        },
    }
}
