//! Mails: one SMTP session for each. The `Message-ID` is derived from the message's id, so that a
//! repetition can be detected.

use crate::roots;
use corral::config::MailTls;
use corral::notifier::{MailMessage, SendError, SendResult};
use lettre::message::{Mailbox, header};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use std::time::Duration;

fn later(why: impl ToString) -> SendError {
    SendError {
        why: why.to_string(),
        retry: true,
    }
}

fn permanent(why: impl ToString) -> SendError {
    SendError {
        why: why.to_string(),
        retry: false,
    }
}

/// # Errors
/// The server does not answer in time, or refuses the mail; permanently if it says so.
pub(crate) fn send(letter: &MailMessage) -> SendResult {
    let message = message(letter)?;
    let server = &letter.server;
    let mut transport = SmtpTransport::builder_dangerous(&server.host)
        .port(server.port)
        .timeout(Some(Duration::from_millis(letter.timeout_ms)))
        .tls(match server.tls {
            MailTls::No => Tls::None,
            MailTls::Starttls => Tls::Required(parameters(&server.host)?),
            MailTls::Yes => Tls::Wrapper(parameters(&server.host)?),
        });
    if let (Some((user, _)), Some(password)) = (&server.account, &letter.password) {
        let credentials = Credentials::new(user.clone(), password.clone());
        transport = transport.credentials(credentials);
    }
    match transport.build().send(&message) {
        Ok(_) => Ok(()),
        Err(e) if e.is_permanent() => Err(permanent(chain(&e))),
        Err(e) => Err(later(chain(&e))),
    }
}

/// An error with its causes, which its own text does not contain.
fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        let source_text = e.to_string();
        if !text.contains(&source_text) {
            text = format!("{text}: {source_text}");
        }
        cause = e.source();
    }
    text
}

fn message(letter: &MailMessage) -> Result<Message, SendError> {
    let from: Mailbox = letter.server.from.parse().map_err(permanent)?;
    let domain = from.email.domain().to_owned();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let id: String = letter.id.chars().map(plain).collect();
    let mut builder = Message::builder()
        .from(from)
        .message_id(Some(format!("<{id}@{domain}>")))
        .subject(letter.subject.clone())
        .header(header::ContentType::TEXT_PLAIN)
        // Automatic responders do not answer a mail that is marked as automatic.
        .raw_header(header::HeaderValue::new(
            header::HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ));
    for to in &letter.to {
        builder = builder.to(to.parse().map_err(permanent)?);
    }
    builder.body(letter.text.clone()).map_err(permanent)
}

fn parameters(host: &str) -> Result<TlsParameters, SendError> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(bundle) = roots::bundle() {
        let certificate = Certificate::from_pem(&bundle).map_err(later)?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corral::config::MailServer;

    fn letter() -> MailMessage {
        MailMessage {
            server: MailServer {
                host: "127.0.0.1".into(),
                port: 1,
                tls: MailTls::No,
                from: "corral@example.org".into(),
                domain: String::new(),
                account: None,
                hourly: 10,
                timeout_ms: 1_000,
            },
            password: None,
            id: "c.7[1].1.done".into(),
            to: vec!["ann@example.org".into()],
            subject: "Job 7: \u{4e2d}\r\nBcc: x@y".into(),
            text: "\u{4e2d}\n.\n".into(),
            timeout_ms: 1_000,
        }
    }

    #[test]
    fn a_message_has_an_id_of_its_own_and_no_line_of_a_user_becomes_a_header() {
        let bytes = message(&letter()).expect("a message").formatted();
        let text = String::from_utf8(bytes).expect("mails are ASCII");
        let (headers, _) = text.split_once("\r\n\r\n").expect("headers and body");
        assert!(
            headers.contains("Message-ID: <c.7_1_.1.done@example.org>"),
            "{headers}"
        );
        assert!(
            headers.contains("Auto-Submitted: auto-generated"),
            "{headers}"
        );
        assert!(!headers.lines().any(|l| l.starts_with("Bcc")), "{headers}");
    }

    #[test]
    fn a_server_that_is_not_there_may_come_back() {
        let unsent = send(&letter()).expect_err("nothing listens at port 1");
        assert!(unsent.retry, "{unsent:?}");
        let mut wrong = letter();
        wrong.to = vec!["nobody".into()];
        assert!(!send(&wrong).expect_err("no address").retry);
    }
}
