//! What a request is for, told by its method, path and headers alone.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::reply::Dialect;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::request::Parts;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Whether the process runs.
    Live,
    /// Whether the node can answer requests.
    Ready,
    /// The node's numbers.
    Metrics,
    /// An action in the JSON dialect.
    Json(Action),
    /// An action in the Query dialect, named by its parameters; and how it is answered.
    Query(Dialect),
    /// An action in the JSON dialect that is none of the API.
    UnknownTarget(String),
    /// Nothing that is served here.
    Unknown,
}

impl Route {
    /// Reads a request's route. Both dialects are spoken at `/` and at a queue's path.
    pub(crate) fn of(request: &Parts) -> Self {
        if request.method == Method::GET {
            return match request.uri.path() {
                "/livez" => Self::Live,
                "/readyz" => Self::Ready,
                "/metrics" => Self::Metrics,
                _ if names_action(request) => Self::Query(query_dialect(request)),
                _ => Self::Unknown,
            };
        }
        let target = request.headers.get("x-amz-target");
        match target.map(|target| target.to_str()) {
            Some(Ok(target)) if request.method == Method::POST => match Action::from_target(target)
            {
                Some(action) => Self::Json(action),
                None => Self::UnknownTarget(target.to_owned()),
            },
            // Without a content type the parameters may be in the URL.
            None if request.method == Method::POST && !has(request, &CONTENT_TYPE, "json") => {
                Self::Query(query_dialect(request))
            }
            Some(_) | None => Self::Unknown,
        }
    }
}

fn names_action(request: &Parts) -> bool {
    let mut parameters = request.uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter.starts_with("Action="))
}

/// XML, unless the client accepts JSON.
fn query_dialect(request: &Parts) -> Dialect {
    if has(request, &ACCEPT, "application/json") {
        Dialect::Tree
    } else {
        Dialect::Xml
    }
}

fn has(request: &Parts, header: &HeaderName, text: &str) -> bool {
    let value = request.headers.get(header);
    value.is_some_and(|value| value.to_str().is_ok_and(|value| value.contains(text)))
}

#[cfg(test)]
mod tests {
    use hikyaku_sqs::action::Action;

    use super::{Dialect, Route};

    fn route(method: &str, uri: &str, target: Option<&str>) -> Route {
        let mut request = http::Request::builder().method(method).uri(uri);
        if let Some(target) = target {
            request = request.header("X-Amz-Target", target);
        }
        Route::of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_target_names_the_action_on_any_path() {
        let target = Some("AmazonSQS.SendMessage");
        for path in ["/", "/000000000000/orders", "/livez"] {
            let expected = Route::Json(Action::SendMessage);
            assert_eq!(route("POST", path, target), expected, "{path}");
        }
        let other = route("POST", "/", Some("AmazonSNS.Publish"));
        assert_eq!(other, Route::UnknownTarget("AmazonSNS.Publish".to_owned()));
    }

    #[test]
    fn a_form_names_its_action_itself() {
        let query = Route::Query(Dialect::Xml);
        for path in ["/", "/000000000000/orders", "/?Action=ListQueues"] {
            assert_eq!(route("POST", path, None), query, "{path}");
        }
        for path in ["/?Action=ListQueues", "/000000000000/orders?a=b&Action=x"] {
            assert_eq!(route("GET", path, None), query, "{path}");
        }
        for (header, value, expected) in [
            ("Accept", "application/json", Route::Query(Dialect::Tree)),
            (
                "Accept",
                "text/xml, application/json;q=0.5",
                Route::Query(Dialect::Tree),
            ),
            ("Content-Type", "application/x-www-form-urlencoded", query),
            ("Content-Type", "application/x-amz-json-1.0", Route::Unknown),
        ] {
            let request = http::Request::post("/").header(header, value);
            let parts = request.body(()).unwrap().into_parts().0;
            assert_eq!(Route::of(&parts), expected, "{value}");
        }
    }

    #[test]
    fn operators_ask_with_get() {
        assert_eq!(route("GET", "/livez", None), Route::Live);
        assert_eq!(route("GET", "/readyz?verbose", None), Route::Ready);
        assert_eq!(route("GET", "/metrics", None), Route::Metrics);
        let form = Route::Query(Dialect::Xml);
        assert_eq!(route("POST", "/livez", None), form);
    }

    #[test]
    fn the_rest_is_unknown() {
        let target = Some("AmazonSQS.SendMessage");
        assert_eq!(route("GET", "/", target), Route::Unknown);
        assert_eq!(route("PUT", "/", target), Route::Unknown);
    }
}
