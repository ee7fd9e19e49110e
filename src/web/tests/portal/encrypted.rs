//! The portal's own TLS, tested by a client that checks the certificate.

use crate::bed::{LINK, TestPortal};
use axum::body::Body;
use axum::http::Request;
use corral_web::server::{Listener, serve};
use corral_web::{Settings, tls};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const CERTIFICATE: &str = include_str!("tls/localhost.pem");
const KEY: &str = include_str!("tls/key.pem");

/// The files of certificate and key; the key has this mode.
fn files(dir: &Path, mode: u32) -> (PathBuf, PathBuf) {
    let (certificate, key) = (dir.join("c.pem"), dir.join("k.pem"));
    std::fs::write(&certificate, CERTIFICATE).unwrap();
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    (certificate, key)
}

fn connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    roots.add(der).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    TlsConnector::from(Arc::new(config.with_no_client_auth()))
}

#[tokio::test]
async fn a_browser_is_served_by_tls_and_not_without() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = files(dir.path(), 0o600);
    let acceptor = tls::acceptor(&certificate, &key).unwrap();
    let bed = TestPortal::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let (end, ending) = watch::channel(false);
    let listener = Listener::Tls(listener, acceptor);
    let serving = tokio::spawn(serve(listener, bed.router.clone(), ending));
    let ask = "GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let stream = TcpStream::connect(place).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector().connect(name, stream).await.unwrap();
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    // Without TLS there is no page; a silent connection does not delay others.
    let _silent = TcpStream::connect(place).await.unwrap();
    let mut plain = TcpStream::connect(place).await.unwrap();
    plain.write_all(ask.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(180), plain.read_to_end(&mut bytes));
    let _ = read.await.expect("it is closed");
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP"));
    end.send(true).unwrap();
    serving.await.unwrap();
}

#[tokio::test]
async fn cookies_of_an_encrypted_portal_are_for_encrypted_connections() {
    let settings = Settings {
        encrypted: true,
        cookie: "__Host-corral_1".into(),
        ..Settings::default()
    };
    let bed = TestPortal::new().with_settings(settings);
    let form = "application/x-www-form-urlencoded";
    let request = Request::post("/login").header("host", "localhost");
    let request = request.header("content-type", form);
    let answer = bed
        .send(request.body(Body::from(format!("token={LINK}"))).unwrap())
        .await;
    let cookie = answer.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-corral_1=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    assert!(
        cookie.contains("Path=/;") && cookie.contains("HttpOnly"),
        "{cookie}"
    );
    assert_eq!(
        answer.header("strict-transport-security"),
        "max-age=31536000"
    );
}

#[test]
fn a_key_that_all_can_read_and_files_of_another_kind_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = files(dir.path(), 0o644);
    let why = |c: &Path, k: &Path| tls::acceptor(c, k).err().expect("a refusal");
    assert!(
        why(&certificate, &key).contains("chmod"),
        "{}",
        why(&certificate, &key)
    );
    let (certificate, key) = files(dir.path(), 0o640);
    assert!(
        why(&key, &key).contains("no certificate"),
        "{}",
        why(&key, &key)
    );
    assert!(why(&certificate, &certificate).contains("c.pem"));
    assert!(why(&dir.path().join("none"), &key).contains("none"));
}
