//! The log of a program: to standard error, where its supervisor keeps it.

/// Starts logging. `CB_LOG` overrides `level` (`info`, `corral::master=debug`, ...).
pub fn start(level: &str) {
    let wanted = std::env::var("CB_LOG").unwrap_or_else(|_| level.to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&wanted)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}
