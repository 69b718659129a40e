//! What an operator asks of a node, and the port where.
//!
//! [`serve`] answers on a port of its own, apart from clients and peers, and before anything of a
//! request is read it wants the [`Token`]. Any node answers for the whole cluster: what is to change
//! goes to the leader of the metadata, and what is to be seen is read behind it.
//!
//! Everything may be asked twice: what is so already stays so, and a command that was cut off goes on
//! when it is given again. What takes long (a node that is emptied) goes on in the cluster, whether or
//! not somebody waits for it.
//!
//! What is absent: the operator's commands themselves (cli), and any state of its own.

mod door;
mod port;
mod service;
mod stop;
mod tenancy;
mod token;
mod view;

pub use port::{AdminPort, serve};
pub use service::{Desk, Standing};
pub use stop::{STOP_LIMIT_MAX, StopOrder, StopReport};
pub use token::{InvalidToken, TOKEN_MIN_BYTES, Token};
