//! The start of a portal for all users, and its two halves: the broker, which stays root, and the
//! HTTP process, which gives up all rights before it reads its first byte.
//!
//! Owns what is refused at the start, the order in which rights are given up, where the address is
//! published, and when section `portal` of cb.yaml is read again. This module neither acts for a
//! user nor serves HTTP.

use crate::broker::client;
use crate::broker::{Broker, BrokerEnd};
use crate::cluster::{self, Cluster};
use crate::command::{Refusal, in_runtime, until_signal};
use crate::server::{Listener, serve};
use crate::{App, PortalState, Settings, routes, tls};
use corral::api::Failure;
use corral::api::portal::{
    Portal, PortalAddress, portal_settings, publish_service, withdraw_service,
};
use corral::program;
use corral::spool::Site;
use corral::sys;
use corral::sys::fork::fork_snapshot;
use corral::sys::launch::{ProcessIdentity, become_user};
use corral::sys::users::{self, UserFacts};
use corral::sys::{confine, descriptors, pam, signals};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Default address.
const LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8080);
/// Interval at which section `portal` is read again.
const FOLLOW: Duration = Duration::from_secs(60);

/// The settings with which `cbweb --service` is started.
struct ServiceStart {
    site: Site,
    /// The account of the HTTP process.
    account: String,
    listen: SocketAddr,
    /// Files of certificate and key.
    tls: Option<(PathBuf, PathBuf)>,
    names: Vec<String>,
    metrics_open: bool,
    apps_domain: Option<String>,
    /// The settings that apply while the service runs.
    portal: Portal,
}

/// Options of the command line; section `portal` of cb.yaml supplies those that are missing.
pub(crate) struct ServiceOptions {
    pub account: Option<String>,
    pub listen: Option<SocketAddr>,
    pub tls: Option<(PathBuf, PathBuf)>,
    pub names: Vec<String>,
    pub metrics_open: bool,
    pub apps_domain: Option<String>,
}

impl ServiceOptions {
    /// Adds the settings of cb.yaml to the options.
    ///
    /// # Errors
    /// cb.yaml cannot be used.
    fn over_the_file(self, site: Site) -> Result<ServiceStart, Refusal> {
        let portal = portal_settings(&site).map_err(Refusal::system)?;
        let listen = self.listen.or(portal.listen);
        Ok(ServiceStart {
            site,
            account: self.account.unwrap_or_else(|| portal.user.clone()),
            listen: listen.unwrap_or_else(|| LISTEN.into()),
            tls: self.tls.or_else(|| portal.tls.clone()),
            names: match self.names.is_empty() {
                true => portal.names.clone(),
                false => self.names,
            },
            metrics_open: self.metrics_open || portal.metrics_open,
            apps_domain: self.apps_domain.or_else(|| portal.apps_domain.clone()),
            portal,
        })
    }
}

/// Serves all users until a signal ends it.
pub(crate) fn run(options: ServiceOptions, site: Site) -> Result<(), Refusal> {
    if !users::may_switch() || users::effective_uid() != 0 {
        return Err(Refusal::usage(
            "--service: not root: only root can act for all users\n\
             hint: start it without --service to serve yourself",
        ));
    }
    let start = options.over_the_file(site)?;
    let account = checked(&start)?;
    sys::logging::start("info");
    if start.portal.pam {
        can_ask_pam(&start.portal)?;
    }
    let tls = match &start.tls {
        Some((certificate, key)) => Some(tls::acceptor(certificate, key).map_err(Refusal::system)?),
        None => None,
    };
    let listen = start.listen;
    let listener = TcpListener::bind(listen)
        .and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp))
        .map_err(|e| Refusal::system(format!("cannot listen on {listen}: {}", sys::reason(&e))))?;
    let listen = listener.local_addr().map_err(Refusal::system)?;
    let address = address(listen, &start);
    let name = format!("corral_{}", listen.port());
    let settings = Settings {
        names: start.names,
        metrics_open: start.metrics_open,
        encrypted: tls.is_some(),
        // Browsers accept a cookie with this prefix only from an encrypted connection.
        cookie: match tls.is_some() {
            true => format!("__Host-{name}"),
            false => name,
        },
        apps_domain: start.apps_domain,
    };
    let site = start.site;
    let (mine, theirs) = descriptors::message_pair().map_err(Refusal::system)?;
    let broker = sys::proc::own_pid();
    let half = HttpHalf {
        listener,
        tls,
        control: theirs,
        settings,
        portal: start.portal.clone(),
    };
    let http = || http_process(&account, broker, half, &site);
    let mut http = fork_snapshot(http).map_err(Refusal::system)?;
    let mut served = Broker::new(mine, site.clone()).following(&start.portal);
    let ended = served.run(&mut http, &mut || {
        as_owner(&site, |layout| publish_service(layout, &address))?;
        println!("{}", address.url);
        sys::service::ready("serving all users");
        Ok(())
    });
    sys::service::stopping();
    let _ = as_owner(&site, |layout| {
        withdraw_service(layout, &address);
        Ok(())
    });
    match ended {
        Ok(BrokerEnd::BySignal) => Ok(()),
        Ok(BrokerEnd::Alone) => Err(Refusal::system("the HTTP process has ended")),
        Err(failure) => Err(Refusal::system(failure)),
    }
}

/// Checks the settings; returns the account of the HTTP process.
fn checked(start: &ServiceStart) -> Result<UserFacts, Refusal> {
    let (listen, is_far) = (start.listen, !start.listen.ip().is_loopback());
    if is_far && start.tls.is_none() {
        return Err(Refusal::usage(format!(
            "--listen {listen}: not a loopback address, and the traffic is not encrypted\n\
             hint: give --tls-cert and --tls-key, or let a proxy with TLS forward to it"
        )));
    }
    if is_far && start.names.is_empty() {
        return Err(Refusal::usage(format!(
            "--listen {listen}: no name by which browsers call it is given\nhint: --name \
             portal.example.org, a name that the certificate has"
        )));
    }
    let name = &start.account;
    let Some(account) = users::by_name(name) else {
        return Err(Refusal::usage(format!(
            "--user {name}: there is no such account\nhint: useradd --system --no-create-home \
             --shell /usr/sbin/nologin {name}"
        )));
    };
    let share = sys::fs::stat(&start.site.layout().cluster()).map_err(Refusal::system)?;
    let Some(share) = share else {
        return Err(Refusal::system(format!(
            "there is no cluster at {}",
            start.site.share.display()
        )));
    };
    if account.uid == 0 || account.uid == share.uid {
        return Err(Refusal::usage(format!(
            "--user {name}: the account of the HTTP process must not be root or the owner of the \
             share\nhint: give it an account of its own"
        )));
    }
    Ok(account)
}

/// Reports before the first login what would make all logins fail.
///
/// # Errors
/// This host has no PAM.
fn can_ask_pam(portal: &Portal) -> Result<(), Refusal> {
    // In a separate process: a library that is loaded stays loaded.
    let probe = fork_snapshot(|| match pam::can_be_asked() {
        Ok(()) => 0,
        Err(why) => {
            program::print_error(&format!("cbweb: {why}"));
            1
        }
    });
    let probe = probe.and_then(|mut process| process.wait());
    if probe.map_err(Refusal::system)? != 0 {
        return Err(Refusal::system(
            "pam: yes in section portal of cb.yaml, and this host has no PAM\nhint: install it \
             (Debian: libpam0g libpam-modules; Red Hat: pam), or write pam: no",
        ));
    }
    let file = std::path::Path::new("/etc/pam.d").join(&portal.pam_service);
    if !sys::fs::exists(&file) {
        tracing::warn!(
            "{} is not there: PAM asks its service other, which refuses everybody as a rule",
            file.display()
        );
    }
    Ok(())
}

/// The address that is published.
fn address(listen: SocketAddr, start: &ServiceStart) -> PortalAddress {
    let (encrypted, by_proxy) = (start.tls.is_some(), !start.portal.trust_proxy.is_empty());
    PortalAddress {
        url: match start.names.first() {
            // Browsers reach it through the proxy.
            Some(name) if by_proxy && !encrypted => format!("https://{name}"),
            name => url(listen, encrypted, name),
        },
        socket: String::new(),
        host: sys::host::node_name(),
        pid: sys::proc::own_pid(),
        since: sys::clock::wall_ms(),
    }
}

/// The address that `clogin` prints. Certificates are for names.
fn url(listen: SocketAddr, encrypted: bool, name: Option<&String>) -> String {
    match (encrypted, name) {
        (false, _) => format!("http://{listen}"),
        (true, None) => format!("https://localhost:{}", listen.port()),
        (true, Some(name)) if listen.port() == 443 => format!("https://{name}"),
        (true, Some(name)) => format!("https://{name}:{}", listen.port()),
    }
}

/// What the HTTP process receives.
struct HttpHalf {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    control: File,
    settings: Settings,
    portal: Portal,
}

/// The HTTP process; returns its exit code.
fn http_process(account: &UserFacts, broker: u32, half: HttpHalf, site: &Site) -> i32 {
    let number = |name| signals::number(name).unwrap_or_default();
    sys::fork::detach(
        c"cbweb-http",
        &[half.listener.as_raw_fd(), half.control.as_raw_fd()],
    );
    if let Err(e) = confine::confine(account.uid, account.gid) {
        program::print_error(&format!("cbweb: {e}"));
        return 1;
    }
    confine::login_environment(account);
    // Only now, because changing the account clears this setting.
    sys::proc::die_with_parent(number("TERM"));
    if u32::try_from(sys::proc::parent()) != Ok(broker) {
        return 1;
    }
    match in_runtime(live(half, site)) {
        Ok(()) => 0,
        Err(refusal) => {
            program::print_error(&format!("cbweb: {refusal}"));
            1
        }
    }
}

async fn live(half: HttpHalf, site: &Site) -> Result<(), Refusal> {
    let listener = tokio::net::TcpListener::from_std(half.listener).map_err(Refusal::system)?;
    let listener = match half.tls {
        Some(tls) => Listener::Tls(listener, tls),
        None => Listener::Tcp(listener),
    };
    let (end, ending) = watch::channel(false);
    let actor = Arc::new(client::BrokerClient::new(half.control, site.clone()));
    let app = PortalState::new(
        half.settings,
        Cluster::new(site),
        actor.clone(),
        ending.clone(),
    );
    app.follow(half.portal);
    let first = app.clone();
    let _ = tokio::task::spawn_blocking(move || first.cluster.refresh(true)).await;
    let watching = tokio::spawn(cluster::watch(app.clone()));
    // Registered before the broker may send it.
    let hangup = signal(SignalKind::hangup()).ok();
    tokio::spawn(follow(app.clone(), site.clone(), hangup));
    tokio::spawn(until_signal(end));
    actor.ready().map_err(Refusal::system)?;
    serve(listener, routes::router(app), ending).await;
    let _ = watching.await;
    Ok(())
}

/// Reads section `portal` at intervals, and when the broker sends a signal. The broker itself reads
/// the settings that it needs.
async fn follow(app: App, site: Site, mut hangups: Option<Signal>) {
    let mut pause = tokio::time::interval(FOLLOW);
    pause.tick().await;
    loop {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => drop(hangups.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = pause.tick() => {}
            () = hangup => {}
        }
        let (app, site) = (app.clone(), site.clone());
        let _ = tokio::task::spawn_blocking(move || match portal_settings(&site) {
            Ok(portal) => app.follow(portal),
            Err(failure) => tracing::debug!("section portal stays as it was read: {failure}"),
        })
        .await;
    }
}

/// Runs `work` as the owner of the share, in a separate process: if the file server maps root to
/// the account `nobody`, root cannot write there.
fn as_owner(
    site: &Site,
    work: impl FnOnce(&corral::spool::Layout) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let layout = site.layout();
    let system = |text: String| Failure {
        kind: corral::api::FailureKind::System,
        text,
    };
    let forked = fork_snapshot(|| {
        let owner = sys::fs::stat(&layout.cluster()).ok().flatten();
        let became = owner.is_some_and(|owner| {
            let (uid, gid, groups) = (owner.uid, owner.gid, vec![owner.gid]);
            uid == 0 || become_user(&ProcessIdentity { uid, gid, groups }).is_ok()
        });
        match became.then(|| work(&layout)) {
            Some(Ok(())) => 0,
            Some(Err(failure)) => {
                program::print_error(&format!("cbweb: {failure}"));
                1
            }
            None => 1,
        }
    });
    let done = forked.and_then(|mut forked| forked.wait());
    match done {
        Ok(0) => Ok(()),
        Ok(_) => Err(system(format!(
            "the address cannot be published as the owner of {}",
            layout.root().display()
        ))),
        Err(e) => Err(system(e.to_string())),
    }
}
