//! `cbweb`: its options, what it refuses at the start, and its main function until the signal.

use crate::cluster::{self, Cluster};
use crate::identity::SameUser;
use crate::server::{Listener, serve};
use crate::service::{self, ServiceOptions};
use crate::{PortalState, Settings, routes};
use clap::Parser;
use corral::api::portal::{PortalAddress, is_apps_domain, publish_address, withdraw_address};
use corral::program;
use corral::spool::Site;
use corral::sys;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Threads that serve connections, and the most that read files or wait for the leader.
const THREADS: usize = 2;
const BLOCKING_THREADS: usize = 64;
/// Exit codes: the same as those of the commands.
const USAGE: u8 = 2;
const SYSTEM: u8 = 5;

/// The cluster in a browser, and a REST interface, for the user who starts it.
#[derive(Parser, Debug)]
#[command(name = "cbweb", version)]
struct Options {
    /// Port on 127.0.0.1; 0: any free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Listen on this Unix socket instead; only you can open it.
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    socket: Option<PathBuf>,
    /// A host name of the portal, besides localhost; may be given more than once.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Programs of jobs get host names below this domain; *.DOMAIN must resolve to the portal.
    #[arg(long, value_name = "DOMAIN")]
    apps_domain: Option<String>,
    /// Serve /metrics without a token.
    #[arg(long)]
    metrics_open: bool,
    /// Serve all users of this host, each with their own rights; started as root. Section portal of
    /// cb.yaml has the settings that are not given here.
    #[arg(long, conflicts_with_all = ["port", "socket", "as_root"])]
    service: bool,
    /// With --service: the unprivileged account of the HTTP process; corral-web by default.
    #[arg(long, value_name = "NAME", requires = "service")]
    user: Option<String>,
    /// With --service: the address to listen on; 127.0.0.1:8080 by default.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "service")]
    listen: Option<SocketAddr>,
    /// With --service: file of the TLS certificate (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["service", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// With --service: file of the certificate's key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve root, on a development cluster that was started by root.
    #[arg(long)]
    as_root: bool,
}

/// Why `cbweb` does not start.
pub(crate) struct Refusal {
    text: String,
    code: u8,
}

impl Refusal {
    pub(crate) fn usage(text: impl Into<String>) -> Refusal {
        Refusal {
            text: text.into(),
            code: USAGE,
        }
    }

    pub(crate) fn system(text: impl ToString) -> Refusal {
        Refusal {
            text: text.to_string(),
            code: SYSTEM,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Runs the portal until a signal ends it.
pub fn main() -> ExitCode {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let options: Options = match program::options(&argv) {
        Ok(options) => options,
        Err(code) => return ExitCode::from(code),
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            program::print_error(&format!("cbweb: {refusal}"));
            ExitCode::from(refusal.code)
        }
    }
}

fn run(options: &Options) -> Result<(), Refusal> {
    let site = Site::find().map_err(Refusal::system)?;
    let apps_domain = apps_domain(options)?;
    if options.service {
        let settings = ServiceOptions {
            account: options.user.clone(),
            listen: options.listen,
            tls: options.tls_cert.clone().zip(options.tls_key.clone()),
            names: lower(&options.names),
            metrics_open: options.metrics_open,
            apps_domain,
        };
        return service::run(settings, site);
    }
    refuse_root(options, &site)?;
    sys::logging::start("info");
    in_runtime(live(options, site, apps_domain))
}

/// Runs the asynchronous part of the portal to its end.
pub(crate) fn in_runtime(work: impl Future<Output = Result<(), Refusal>>) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(Refusal::system)?;
    let ended = runtime.block_on(work);
    // A thread that waits for the leader does not delay the end of the process.
    runtime.shutdown_background();
    ended
}

fn lower(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// The domain of programs. It must not be one of the portal's own names: otherwise a page of a
/// program would have the portal's origin.
fn apps_domain(options: &Options) -> Result<Option<String>, Refusal> {
    let Some(domain) = &options.apps_domain else {
        return Ok(None);
    };
    let domain = domain.to_ascii_lowercase();
    if !is_apps_domain(&domain) {
        return Err(Refusal::usage(format!(
            "--apps-domain {domain}: not a domain\nhint: --apps-domain apps.example.org, with \
             *.apps.example.org leading here"
        )));
    }
    if lower(&options.names).contains(&domain) {
        return Err(Refusal::usage(format!(
            "--apps-domain {domain}: the portal itself has this name"
        )));
    }
    Ok(Some(domain))
}

/// A portal that runs as root would give root's rights to every login.
fn refuse_root(options: &Options, site: &Site) -> Result<(), Refusal> {
    let is_root = sys::users::effective_uid() == 0;
    let share = sys::fs::stat(&site.layout().cluster()).ok().flatten();
    let of_root = share.is_some_and(|stat| stat.uid == 0);
    let marker = sys::fs::parent(&site.share).join("etc").join("dev.json");
    let is_dev = of_root && site.share.ends_with("share") && sys::fs::exists(&marker);
    let refuse = |text: &str| Err(Refusal::usage(text));
    // `cadmin dev` starts the portal for the user who started the development cluster.
    let as_root = options.as_root || (is_root && std::env::var_os("CB_DEV").is_some());
    match (is_root, as_root) {
        (true, false) => refuse(
            "not as root: the portal serves the user who starts it, and a browser should not have \
             root's rights\nhint: start it as the user; --service is for all users, \
             --as-root for root's own development cluster",
        ),
        (true, true) if !is_dev => {
            refuse("--as-root: this is not a development cluster of root's (cadmin dev up)")
        }
        (false, true) => refuse("--as-root: you are not root"),
        _ => Ok(()),
    }
}

async fn live(options: &Options, site: Site, apps_domain: Option<String>) -> Result<(), Refusal> {
    let (listener, address) = listen(options).await?;
    let (end, ending) = watch::channel(false);
    let settings = Settings {
        names: lower(&options.names),
        metrics_open: options.metrics_open,
        encrypted: false,
        // Browsers send a cookie to all ports of a host, so each portal has its own cookie name.
        cookie: format!("corral_{}", port_of(&address.url)),
        apps_domain,
    };
    let actor = Arc::new(SameUser::new(site.clone()));
    let app = PortalState::new(settings, Cluster::new(&site), actor, ending.clone());
    let first = app.clone();
    let _ = tokio::task::spawn_blocking(move || first.cluster.refresh(true)).await;
    let watching = tokio::spawn(cluster::watch(app.clone()));
    tokio::spawn(until_signal(end));
    publish_address(&site, &address).map_err(Refusal::system)?;
    println!("{}", address.url);
    program::print_error("cbweb: log in with the link that clogin prints");
    sys::service::ready("serving");
    serve(listener, routes::router(app), ending).await;
    sys::service::stopping();
    withdraw_address(&site, &address);
    if let Some(path) = &options.socket {
        let _ = sys::fs::remove(path);
    }
    let _ = watching.await;
    Ok(())
}

fn port_of(url: &str) -> &str {
    url.rsplit_once(':').map_or("socket", |(_, port)| port)
}

async fn listen(options: &Options) -> Result<(Listener, PortalAddress), Refusal> {
    let mut address = PortalAddress {
        url: String::new(),
        socket: String::new(),
        host: sys::host::node_name(),
        pid: sys::proc::own_pid(),
        since: sys::clock::wall_ms(),
    };
    let Some(path) = &options.socket else {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let tcp = TcpListener::bind(listen).await;
        let tcp = tcp.map_err(|e| {
            Refusal::system(format!("cannot listen on {listen}: {}", sys::reason(&e)))
        })?;
        let listen = tcp.local_addr().map_err(Refusal::system)?;
        address.url = format!("http://{listen}");
        return Ok((Listener::Tcp(tcp), address));
    };
    let unix = bind(path)?;
    let path = sys::fs::canonical(path).map_err(Refusal::system)?;
    address.socket = path.to_string_lossy().into_owned();
    address.url = "http://localhost:8080".to_owned();
    Ok((Listener::Unix(unix), address))
}

/// Binds a socket that only this user can open. A socket left by a portal that was killed is
/// replaced.
fn bind(path: &Path) -> Result<UnixListener, Refusal> {
    let shown = path.display();
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(Refusal::system(format!(
            "{shown}: another program listens there"
        )));
    }
    let owner = sys::fs::owner(path).map_err(Refusal::system)?;
    if let Some(found) = owner {
        let is_left =
            found.kind == sys::fs::Kind::Other && found.uid == sys::users::effective_uid();
        if !is_left {
            return Err(Refusal::system(format!(
                "{shown} exists and is not a socket of yours"
            )));
        }
        sys::fs::remove(path).map_err(Refusal::system)?;
    }
    let make = || UnixListener::bind(path);
    // The socket has this mode from the moment of its creation.
    let umask = sys::caller::umask(0o177);
    let made = make();
    sys::caller::umask(umask);
    made.map_err(|e| Refusal::system(format!("cannot listen on {shown}: {}", sys::reason(&e))))
}

/// Waits for a signal to end, and passes it on.
pub(crate) async fn until_signal(end: watch::Sender<bool>) {
    let of = |kind| signal(kind).ok();
    let (mut term, mut int) = (of(SignalKind::terminate()), of(SignalKind::interrupt()));
    let next = async |from: &mut Option<tokio::signal::unix::Signal>| match from {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    };
    tokio::select! {
        () = next(&mut term) => {}
        () = next(&mut int) => {}
    }
    let _ = end.send(true);
}
