//! Webhooks: one POST of JSON for each message. Follows no redirection: only the URL that an
//! administrator wrote is used.

use crate::roots;
use corral::notifier::{SendError, SendResult, WebhookRequest};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum length of the part of an answer that a message quotes, in characters.
const QUOTED: usize = 200;
/// Maximum length of an answer that is read, in bytes.
const ANSWER_MAX: u64 = 64 << 10;

/// # Errors
/// No answer in time, or a status outside 200 to 299.
pub(crate) fn send(post: &WebhookRequest) -> SendResult {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_millis(post.timeout_ms)))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("cbnotify/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(certificates()).build())
        .build()
        .new_agent();
    let answer = agent
        .post(&post.url)
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", &post.id)
        .send(&post.json);
    let mut answer = answer.map_err(|e| SendError {
        why: without_url(&e.to_string(), &post.url),
        retry: !matches!(e, ureq::Error::BadUri(_)),
    })?;
    let status = answer.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let text = answer
        .body_mut()
        .with_config()
        .limit(ANSWER_MAX)
        .read_to_string();
    let text: String = text.unwrap_or_default().chars().take(QUOTED).collect();
    Err(SendError {
        why: format!("the server answered {status}: {}", text.trim()),
        retry: may_change(status),
    })
}

/// Whether the same message may be accepted later. Problems with a token, a path or the server can
/// be corrected; its opinion about the content does not change.
fn may_change(status: u16) -> bool {
    !matches!(status, 400 | 405 | 413 | 414 | 415 | 422)
}

/// URLs of webhooks are secrets, but messages can be read by all users.
fn without_url(text: &str, url: &str) -> String {
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    let text = text.replace(url, "the URL");
    match path.is_empty() {
        true => text,
        // Includes the slash: a short path may be a part of any word.
        false => text.replace(&format!("/{path}"), "/..."),
    }
}

fn certificates() -> RootCerts {
    let Some(bundle) = roots::bundle() else {
        return RootCerts::WebPki;
    };
    let items = parse_pem(&bundle).filter_map(Result::ok);
    let all: Vec<Certificate<'static>> = items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    match all.is_empty() {
        true => RootCerts::WebPki,
        false => RootCerts::Specific(Arc::new(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_tell_the_secret_part_of_a_url() {
        let url = "https://hooks.example.org/T0/secret";
        let message = without_url(&format!("cannot reach {url} (/T0/secret)"), url);
        assert!(!message.contains("secret"), "{message}");
        let message = without_url("unknown issuer (/own)", "https://x.org/own");
        assert_eq!(message, "unknown issuer (/...)");
        assert!(may_change(500) && may_change(401) && may_change(429) && !may_change(422));
    }

    #[test]
    fn a_server_that_is_not_there_may_come_back() {
        // The port of a listener that is closed again.
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("it has one").port()
        };
        let post = WebhookRequest {
            url: format!("http://127.0.0.1:{port}/x"),
            id: "i".into(),
            json: "{}".into(),
            timeout_ms: 2_000,
        };
        let unsent = send(&post).expect_err("nothing listens");
        assert!(unsent.retry, "{unsent:?}");
    }
}
