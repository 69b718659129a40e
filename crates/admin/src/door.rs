//! Who may ask: nobody without the token, where there is one.

use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::token::Token;

/// How a token is presented: `authorization: Bearer TOKEN`.
const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

/// Checks the head of a request before its message is read.
#[derive(Clone)]
pub struct Door {
    token: Option<Token>,
}

impl Door {
    /// Lets in who has the token; without one, everybody who reaches the port.
    pub fn new(token: Option<Token>) -> Self {
        Self { token }
    }

    fn admits(&self, head: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let presented = head.and_then(|head| head.strip_prefix(SCHEME));
        presented.is_some_and(|presented| token.is(presented))
    }
}

impl Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let head = request.metadata().get(HEADER);
        // What is not text is no token.
        if self.admits(head.and_then(|head| head.to_str().ok())) {
            return Ok(request);
        }
        tracing::warn!("a request without the operator's token was refused");
        Err(Status::unauthenticated(
            "this node wants the operator's token",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    const TEXT: &str = "cGxhbnRlZC10b2tlbi1vZi10aGUtdGVzdHM";

    #[test]
    fn the_token_opens_and_nothing_else_does() {
        let token = Token::new(Zeroizing::new(TEXT.to_owned())).expect("long enough");
        let door = Door::new(Some(token));
        assert!(door.admits(Some(&format!("Bearer {TEXT}"))));
        let others = [
            "",
            TEXT,
            &format!("Basic {TEXT}"),
            &format!("Bearer {TEXT}x"),
            "Bearer ",
        ];
        for head in others {
            assert!(!door.admits(Some(head)), "{head:?}");
        }
        assert!(!door.admits(None));
    }

    #[test]
    fn without_a_token_everybody_is_let_in() {
        assert!(Door::new(None).admits(None));
    }
}
