//! The portal's own TLS: certificate and key from files, read once, before rights are given up.
//!
//! Uses rustls with ring: `cb-export` and `cbnotify` use the same two; ring needs only a C compiler
//! to build, and is a quarter of the size of aws-lc. Serves no HTTP. A new certificate is used
//! after the next start.

use corral::sys::fs;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Maximum size of a file with certificates or a key, bytes.
const FILE_MAX: u64 = 1 << 20;

/// The TLS acceptor for a certificate, with the certificates that lead to its issuer, and its key,
/// both as PEM files.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let pem = fs::read_small(certificate, FILE_MAX).map_err(|e| e.to_string())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|e| wrong(certificate, &e))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"there is no certificate in it"));
    }
    // The target of a symbolic link is checked.
    let real = fs::canonical(key).map_err(|e| e.to_string())?;
    let found = fs::owner(&real).map_err(|e| e.to_string())?;
    if found.is_some_and(|found| found.mode & 0o007 != 0) {
        let why = "all users of this host can use the key\nhint: chmod o= it";
        return Err(wrong(key, &why));
    }
    let pem = fs::read_small(&real, FILE_MAX).map_err(|e| e.to_string())?;
    let key_der = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| wrong(key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_no_client_auth()
                .with_single_cert(chain, key_der)
        });
    let mut config = config.map_err(|e| wrong(certificate, &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
