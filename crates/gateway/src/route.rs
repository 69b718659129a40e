//! What a request is for, told by its method, path and headers alone.

use hikyaku_sqs::action::Action;
use http::Method;
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
    /// An action in the JSON dialect that is none of the API.
    UnknownTarget(String),
    /// Nothing that is served here.
    Unknown,
}

impl Route {
    /// Reads a request's route. JSON requests are posted to `/` or to a queue's path.
    pub(crate) fn of(request: &Parts) -> Self {
        if request.method == Method::GET {
            return match request.uri.path() {
                "/livez" => Self::Live,
                "/readyz" => Self::Ready,
                "/metrics" => Self::Metrics,
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
            Some(_) | None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_sqs::action::Action;

    use super::Route;

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
    fn operators_ask_with_get() {
        assert_eq!(route("GET", "/livez", None), Route::Live);
        assert_eq!(route("GET", "/readyz?verbose", None), Route::Ready);
        assert_eq!(route("GET", "/metrics", None), Route::Metrics);
        assert_eq!(route("POST", "/livez", None), Route::Unknown);
    }

    #[test]
    fn the_rest_is_unknown() {
        let target = Some("AmazonSQS.SendMessage");
        assert_eq!(route("GET", "/", target), Route::Unknown);
        assert_eq!(route("PUT", "/", target), Route::Unknown);
        assert_eq!(route("POST", "/", None), Route::Unknown);
    }
}
