//! What the front is told, and what a client may take of it.

use std::num::NonZeroU32;
use std::time::Duration;

use hikyaku_metadata::TenantId;

/// The configuration of the front.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Scheme, host and port that queue URLs begin with, without a slash at the end; without it they
    /// begin with the host that the client asked for, and `http` or `https` as the front itself speaks.
    pub public_url: Option<String>,
    /// The region in the ARNs of queues.
    pub region: String,
    /// What a client may take.
    pub limits: GatewayLimits,
    /// Queues whose messages are counted by themselves; those of all others are counted together.
    pub shown_queues: Vec<ShownQueue>,
}

/// A queue whose messages have series of their own among the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownQueue {
    /// The owner.
    pub tenant: TenantId,
    /// The name.
    pub name: String,
}

/// What clients may take of the front. Beyond it they are refused at once.
#[derive(Clone, Debug)]
pub struct GatewayLimits {
    /// Connections at one time; one more is closed as soon as it is accepted.
    pub connections: usize,
    /// Connections at one time from one address, or from one /64 network of IPv6. High, since a
    /// balancer or a gateway of many clients is one address too.
    pub connections_per_address: usize,
    /// The body of one request, in bytes: a batch has 1 MiB, and JSON needs some around it.
    pub request_bytes: usize,
    /// The bodies of all requests under way together, in bytes: a request beyond it is throttled
    /// before its body is read, so that slow disks and many clients do not cost the process its memory.
    pub bodies_bytes: usize,
    /// What arrived of requests whose sender has not proved anything yet, in bytes, over all
    /// connections: a connection that would exceed it is given up.
    pub unproved_bytes: usize,
    /// Requests of one tenant in a second, of any action; more are throttled. Without it only what the
    /// node can do is the limit.
    pub tenant_requests_per_second: Option<NonZeroU32>,
    /// Queues of one tenant; one more is refused. Those that are created in the same moment may be more.
    pub tenant_queues: Option<NonZeroU32>,
    /// The headers of one request, in bytes.
    pub header_bytes: usize,
    /// The headers of one request.
    pub header_fields: usize,
    /// How long a client may take for the TLS handshake, where there is one.
    pub handshake_timeout: Duration,
    /// How long a client may take to send the head of a request, from its first byte or the start of
    /// the connection. As long, a connection that has proved nothing may stay without a request.
    pub header_timeout: Duration,
    /// How long a client may send nothing in the middle of a body.
    pub body_stall_timeout: Duration,
    /// How long a client may take to send a request, from its first byte to its last.
    pub read_timeout: Duration,
    /// How long a client may take nothing of an answer that waits for it.
    pub write_timeout: Duration,
    /// How long a connection may stay without a request. Longer than the pools of the AWS SDKs keep
    /// one, so that it is the client that closes it and no request meets a closing connection.
    pub idle_timeout: Duration,
    /// How long an orderly stop waits for requests under way.
    pub drain_timeout: Duration,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            public_url: None,
            region: "us-east-1".to_owned(),
            limits: GatewayLimits::default(),
            shown_queues: Vec::new(),
        }
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_address: 10_000,
            request_bytes: (1 << 20) + (256 << 10),
            bodies_bytes: 256 << 20,
            unproved_bytes: 64 << 20,
            tenant_requests_per_second: None,
            tenant_queues: None,
            header_bytes: 16 << 10,
            header_fields: 100,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_stall_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            drain_timeout: Duration::from_secs(20),
        }
    }
}
