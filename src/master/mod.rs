//! Floor 5: the leader as a process: election, inputs, the order of effects, the published view.
//!
//! `cbsched` is a candidate until it wins the election, leads until it may no longer lead, and then
//! ends: its supervisor starts it again as a candidate. Never imports `host` or `client`.

mod accounting;
mod acks;
mod alarms;
mod blobs;
mod conf;
mod deliver;
mod disk_reserve;
pub mod election;
mod hints;
mod host_liveness;
pub mod hosts;
pub mod inbox;
mod janitor;
mod lead;
mod leader_end;
mod leader_metrics;
mod new_drop_boxes;
mod notifier;
mod outbox;
mod outgoing;
pub(crate) mod past_view;
mod publish;
mod published;
mod report_acks;
mod requests;
mod restored;
mod snapshots;
mod store;
mod summary;
mod summary_pace;
mod wakeups;

use crate::config::Config;
use crate::journal::{self, Writer};
use crate::lease::Protocol;
use crate::model::Stamp;
use crate::record::acct::AttemptRecord;
use crate::record::event::Event;
use crate::spool::{Layout, Site, hazards};
use crate::state::State;
use crate::state_loader::Loader;
use crate::sys::statfs::{FsKind, fs_kind};
use crate::sys::trust::Owners;
use crate::sys::watch::Watcher;
use crate::sys::{clock, failpoint, service, signals, thread};
use crate::turn::Core;
use crossbeam::channel::Receiver;
use lead::Leader;
use leader_end::LeaderEnd;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The configuration in force, as the leader keeps it.
///
/// # Errors
/// Every problem as one text with place, line and hint.
pub fn config_in_force(layout: &Layout, owners: Owners) -> Result<Arc<Config>, Vec<String>> {
    conf::in_force(layout, owners).map(|loaded| loaded.config)
}

/// Where the configuration in force is stored.
pub fn config_in_force_path(layout: &Layout) -> std::path::PathBuf {
    conf::last_good(layout)
}

/// Exit codes of cbsched: stopped, refused to start (a supervisor should not retry at once), lost.
pub const EXIT_OK: i32 = 0;
pub const EXIT_REFUSED: i32 = 2;
pub const EXIT_LOST: i32 = 3;
/// Maximum number of epochs or snapshots that are checked.
const NAMES_MAX: usize = 1_000_000;

/// Number of consecutive leaders that died while taking over at which an alarm is raised.
const DIED_MIN: usize = 3;
/// Maximum time that a new leader spends on looking up the groups of users, in milliseconds.
const ACCOUNTS_MS: u64 = 5_000;
/// Maximum room that each of a leader's first files needs, in bytes.
const NEED: u64 = 64 << 10;

/// Runs a master candidate until it is stopped or has lost the lead. `accept_loss`: lead in spite
/// of damage in the journal, setting the damaged bytes aside. Gives the exit code.
///
/// # Errors
/// Why it does not start: [`EXIT_REFUSED`].
pub fn run(accept_loss: bool) -> Result<i32, String> {
    let site = Site::find().map_err(|e| e.to_string())?;
    site.check_for_daemon()?;
    // Set regardless of the daemon's inherited umask: all users read what is published.
    crate::sys::caller::umask(0o022);
    signals::ignore_sigpipe();
    let stop = signals::catch_term().map_err(|e| e.to_string())?;
    let options = Options {
        accept_loss,
        notifier: Some(crate::sys::child::sibling("cbnotify")),
        ..Options::default()
    };
    serve(&site, stop, &options)
}

/// How a candidate works; the default is for production.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lead in spite of damage in the journal, setting the damaged bytes aside.
    pub accept_loss: bool,
    /// How long another host may see old content (ms); `None` = derived from the kind of file
    /// system.
    pub cache_ms: Option<u64>,
    /// Whether each open on this machine is answered by the server; `None` = derived from the
    /// mount.
    pub opens_are_fresh: Option<bool>,
    /// The rules for writing; simulations remove them one by one.
    pub protocol: Protocol,
    /// Sizes at which files end, smaller in simulations; `None` = the defaults.
    pub segment_bytes: Option<u64>,
    pub snapshot_bytes: Option<u64>,
    pub acks_bytes: Option<u64>,
    /// Size of the reserve for a full share; `None` = derived from the size of the file system.
    pub reserve_bytes: Option<u64>,
    /// The program that sends alerts and mail; `None`: none are sent.
    pub notifier: Option<std::path::PathBuf>,
    /// Observes what a leader considers true; simulations compare it with what happened.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Observes what a leader sees; for simulations.
pub trait Witness: Send + Sync + std::fmt::Debug {
    /// A leader of `epoch` has recovered `state`, and its first events are durable.
    fn recovered(&self, epoch: u64, state: &State);
    /// The events of a turn that led to `state` are durable; nothing of it has been published yet.
    fn committed(&self, epoch: u64, state: &State);
    /// A turn of the leader of `epoch` was carried out; `changed`: it changed the state.
    fn after_turn(&self, epoch: u64, state: &State, changed: bool);
}

/// Runs a candidate at `site` until a message on `stop` or the loss of leadership. Returns an exit
/// code.
///
/// # Errors
/// Why it must not run here.
pub fn serve(site: &Site, stop: Receiver<i32>, options: &Options) -> Result<i32, String> {
    let layout = site.layout();
    let pin = site.local.as_ref().map(|dir| dir.join("cluster"));
    // Nothing is created on this host for a directory that is not a cluster.
    election::open_cluster(&layout, None).map_err(|e| e.to_string())?;
    if let Some(dir) = &site.local {
        crate::sys::fs::mkdir_p(dir, 0o711).map_err(|e| e.to_string())?;
    }
    let cluster = election::open_cluster(&layout, pin.as_deref()).map_err(|e| e.to_string())?;
    if crate::sys::users::may_switch() && cluster.service_uid != 0 {
        // Exports squash root, and a scheduler needs no privileges while it reads what users write:
        // it switches to the account that owns the share, permanently.
        let (uid, gid) = (cluster.service_uid, cluster.service_gid);
        crate::sys::users::become_for_good(uid, gid).map_err(|e| e.to_string())?;
    }
    judge_mount(site, &layout)?;
    let owners = crate::spool::owners(&cluster);
    let configured = conf::read_or_last_good(&layout, owners)?;
    let not_a_master = || {
        format!(
            "host {} may not lead: it is not among cluster.masters in {}",
            site.host,
            layout.config().display()
        )
    };
    if !configured.0.config.may_lead(&site.host) {
        return Err(not_a_master());
    }
    let local = fs_kind(layout.root()).is_ok_and(|kind| kind == FsKind::Local);
    let ports = configured.0.config.cluster.hint_ports(local);
    let listener = ports.and_then(|ports| hints::Listener::open(layout.root(), ports));
    let settings = election::Settings {
        host: site.host.clone(),
        hints: listener
            .as_ref()
            .map(|listener| listener.endpoint.to_string())
            .unwrap_or_default(),
        takeover_ms: configured.0.config.cluster.lease_timeout_ms,
        cache_ms: options.cache_ms,
        opens_are_fresh: options.opens_are_fresh,
        protocol: options.protocol,
    };
    let wait = |ms: u64| thread::recv_timeout(&stop, ms).is_ok();
    let won = election::campaign(&layout, cluster, &settings, &wait, |_lost| {
        // The reason is in the log already. Another thread may hang on the share: nothing may
        // continue to run.
        crate::sys::proc::exit_now(EXIT_LOST)
    });
    let Some(leadership) = won.map_err(|e| e.to_string())? else {
        service::stopping();
        return Ok(EXIT_OK);
    };
    // A candidate may have stood by for weeks: cb.yaml may have been changed and read again since.
    let configured = conf::read_or_last_good(&layout, owners).unwrap_or(configured);
    if !configured.0.config.may_lead(&site.host) {
        return Err(not_a_master());
    }
    let end = match take_over(site, leadership, configured, options, stop, listener) {
        Ok(mut leader) => leader.run(options.protocol.bind),
        Err(NotLeading::Refused(why)) => return Err(why),
        Err(NotLeading::Ended(end)) => end,
    };
    match end {
        LeaderEnd::Stopped => {
            service::stopping();
            Ok(EXIT_OK)
        }
        LeaderEnd::Lost(why) => {
            tracing::error!("stepping down: {why}");
            Ok(EXIT_LOST)
        }
    }
}

/// Why a winner of the election does not lead.
enum NotLeading {
    /// It must not: another attempt would change nothing.
    Refused(String),
    /// It ended before it began.
    Ended(LeaderEnd),
}

impl From<String> for NotLeading {
    fn from(why: String) -> NotLeading {
        NotLeading::Refused(why)
    }
}

impl From<LeaderEnd> for NotLeading {
    fn from(end: LeaderEnd) -> NotLeading {
        NotLeading::Ended(end)
    }
}

/// Rejects a mount that endangers locks or data, unless cb.conf insists; logs a warning about other
/// problems.
fn judge_mount(site: &Site, layout: &Layout) -> Result<(), String> {
    let (severe, rest): (Vec<_>, Vec<_>) = hazards(layout)
        .into_iter()
        .partition(|hazard| hazard.is_grave && !site.unsafe_mount);
    for hazard in rest {
        tracing::warn!("{}", hazard.text);
    }
    if severe.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = severe.into_iter().map(|hazard| hazard.text).collect();
    Err(format!(
        "{}; nothing was written\nhint: CB_UNSAFE_MOUNT=yes in {} overrides this check",
        all.join("; "),
        site.conf.display()
    ))
}

/// Recovers the state and opens everything a leader writes.
fn take_over(
    site: &Site,
    leadership: election::Leadership,
    (configured, problems): (conf::Loaded, Vec<String>),
    options: &Options,
    stop: Receiver<i32>,
    listener: Option<hints::Listener>,
) -> Result<Leader, NotLeading> {
    let layout = site.layout();
    let cluster = leadership.cluster.cluster.clone();
    let epoch = leadership.epoch();
    let hidden = quarantine_foreign(&layout, crate::spool::owners(&leadership.cluster))?;
    let (mut state, mut recovered, ends) = restore(&layout, &leadership, options)?;
    recovered.notes.append(&mut recovered.skipped_snapshots);
    recovered.notes.extend(hidden);
    recovered.notes.extend(leadership.notes.iter().cloned());
    let mut first = FirstWrites {
        reserve: disk_reserve::DiskReserve::new(&layout, options.reserve_bytes),
        leadership: &leadership,
        stop: &stop,
    };
    let now = Stamp(clock::wall_ms());
    let writer = begin_journal(site, &mut first, &recovered, options, (now, &mut state))?;
    leadership.recheck().map_err(|e| e.to_string())?;
    if let Some(witness) = &options.witness {
        witness.recovered(epoch, &state);
    }
    let io = |e: crate::sys::Error| e.to_string();
    let config = configured.config.clone();
    let core = core_of(state, (&config, problems), leadership.cluster.service_uid);
    let covered = recovered.snapshot.map_or(0, |(_, covers)| covers.epoch);
    let replayed = (recovered.events * 200, epoch.saturating_sub(covered));
    let publisher =
        first.retry_until_room(|| Ok(publish::Publisher::new(&layout, &cluster, epoch)?))?;
    let most = options.acks_bytes;
    // Whatever blocks this name, the next epoch has a directory of its own.
    let acks = first.retry_or_end(|| Ok(acks::Acks::create(&layout, &cluster, epoch, most)?))?;
    let orders = outbox::Orders::new(&layout, &cluster, epoch).map_err(io)?;
    let owners = crate::spool::owners(&leadership.cluster);
    let watcher = Watcher::filtered(is_written_by_others);
    let alarms = alarms::Alarms::new(recovered.notes, recovered.loss);
    let most = options.snapshot_bytes;
    let snapshots = snapshots::Snapshots::new(&layout, &cluster, replayed, most);
    let accounts = accounting::Accounts::new(&layout, (&cluster, epoch), ends);
    let meter = leader_metrics::LeaderMetrics::new(&layout, epoch, now);
    let (hinted, reserve) = (leadership.is_local(), first.reserve);
    Ok(Leader {
        view: published::PublishedView::new(publisher, alarms, meter, hinted),
        outgoing: outgoing::Outgoing::new(acks, orders),
        inbox: inbox::Inbox::new(&layout),
        new_boxes: new_drop_boxes::NewDropBoxes::new(),
        notifier: notifier::Notifier::new(options.notifier.as_deref(), epoch),
        hosts: hosts::Hosts::new(&layout, &cluster, owners),
        hints: hints::Hints::new(listener),
        wakeups: wakeups::Wakeups::new(stop, watcher, hinted),
        store: store::Store::new(&layout, writer, snapshots, accounts),
        reserve,
        leadership,
        core,
        configured: Some(configured),
        witness: options.witness.clone(),
        site: lead::LeaderSite {
            layout,
            cluster,
            host: site.host.clone(),
            since: now,
        },
    })
}

/// The core of a leader with a recovered state.
fn core_of(state: State, config: (&Arc<Config>, Vec<String>), service_uid: u32) -> Core {
    let (config, problems) = config;
    let mut core = Core::new(state, config.clone(), service_uid);
    core.engine.set_zone(jiff::tz::TimeZone::system());
    core.config_problems = problems;
    note_accounts(&mut core);
    core
}

/// What a leader needs for its first writes, on a share that may be full.
struct FirstWrites<'a> {
    reserve: disk_reserve::DiskReserve,
    leadership: &'a election::Leadership,
    stop: &'a Receiver<i32>,
}

impl FirstWrites<'_> {
    /// As [`FirstWrites::retry_until_room`], but ends the leader on other failures; another
    /// candidate may succeed.
    fn retry_or_end<T>(
        &mut self,
        write: impl FnMut() -> Result<T, journal::Error>,
    ) -> Result<T, NotLeading> {
        self.retry_until_room(write).map_err(|e| match e {
            NotLeading::Refused(why) => NotLeading::Ended(LeaderEnd::Lost(why)),
            ended => ended,
        })
    }

    /// Tries until there is room for it.
    fn retry_until_room<T>(
        &mut self,
        mut write: impl FnMut() -> Result<T, journal::Error>,
    ) -> Result<T, NotLeading> {
        loop {
            match write() {
                Err(e) if e.is_no_space() => {
                    self.reserve
                        .make_room(NEED, &e.to_string(), self.leadership, self.stop)?;
                }
                other => return Ok(other.map_err(|e| e.to_string())?),
            }
        }
    }
}

/// Opens the epoch's journal with its first events: which host leads, and where older epochs end.
fn begin_journal(
    site: &Site,
    first: &mut FirstWrites<'_>,
    recovered: &journal::Recovered,
    options: &Options,
    (now, state): (Stamp, &mut State),
) -> Result<Writer, NotLeading> {
    let layout = site.layout();
    let (cluster, epoch) = (&first.leadership.cluster.cluster, first.leadership.epoch());
    let mut writer = Writer::new(&layout, cluster, epoch);
    if let Some(bytes) = options.segment_bytes {
        writer = writer.with_segment_bytes(bytes);
    }
    first.retry_until_room(|| writer.open())?;
    let seals = match options.protocol.seal {
        true => recovered.seals.as_slice(),
        false => &[],
    };
    first.retry_until_room(|| journal::make_durable(&layout, seals))?;
    let begins = epoch_event(epoch, site, now);
    for event in std::iter::once(&begins).chain(seals) {
        writer.append(event).map_err(|e| e.to_string())?;
        state.apply(event);
    }
    first.retry_until_room(|| writer.commit())?;
    Ok(writer)
}

/// The state comes from journals and snapshots: files of other accounts among them are renamed
/// before anything is read. One that cannot be renamed stays if its name is never read. Returns
/// what was found, for the administrator.
///
/// # Errors
/// A file of another account would be read.
fn quarantine_foreign(layout: &Layout, owners: Owners) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    type Number = fn(&str) -> Option<u64>;
    let read: [(_, Number); 2] = [
        (layout.epochs(), Layout::parse_epoch_name),
        (layout.snapshots(), Layout::parse_snapshot_name),
    ];
    for (dir, number) in read {
        let strangers = owners.untrusted_entries(&dir, NAMES_MAX);
        for (path, uid) in strangers.map_err(|e| e.to_string())? {
            let hidden = owners.quarantine(&path);
            let name = path.file_name().and_then(|name| name.to_str());
            if let Err(e) = &hidden
                && name.and_then(number).is_some()
            {
                return Err(format!(
                    "{} belongs to uid {uid} and would be read as the cluster's own, but it \
                     cannot be renamed: {e}",
                    path.display()
                ));
            }
            let became = match hidden {
                Ok(hidden) => format!("it was renamed to {}", hidden.display()),
                Err(e) => format!("it is not read, but it cannot be renamed: {e}"),
            };
            notes.push(format!(
                "{} belonged to uid {uid}: {became}",
                path.display()
            ));
        }
    }
    notes.iter().for_each(|note| tracing::error!("{note}"));
    Ok(notes)
}

fn epoch_event(epoch: u64, site: &Site, t: Stamp) -> Event {
    let (host, pid) = (site.host.clone(), crate::sys::proc::own_pid());
    Event::Epoch {
        epoch,
        host,
        pid,
        t,
    }
}

/// Reads snapshot and journal, and verifies that the result is sound.
fn restore(
    layout: &Layout,
    leadership: &election::Leadership,
    options: &Options,
) -> Result<(State, journal::Recovered, Vec<AttemptRecord<'static>>), String> {
    let began = clock::boot_ms();
    failpoint::hit("leader.recovering");
    let cluster = &leadership.cluster.cluster;
    let accounted = accounting::mark(layout, cluster, leadership.epoch());
    let mut loader = Loader::with_ends_after(accounted);
    let options = journal::Options {
        accept_loss: options.accept_loss,
        led_epoch: leadership.led_epoch,
        unsealed: !options.protocol.seal,
    };
    let mut recovered = journal::recover(
        layout,
        &leadership.cluster.cluster,
        leadership.epoch(),
        options,
        &mut loader,
    )
    .map_err(|e| e.to_string())?;
    let took = clock::boot_ms() - began;
    let jobs = loader.state.job_count();
    tracing::info!(
        "recovered {jobs} jobs, {} events in {took} ms",
        recovered.events
    );
    let broken = loader.state.check();
    if !broken.is_empty() {
        return Err(format!(
            "the recovered state is not sound: {}",
            broken.join("; ")
        ));
    }
    recovered
        .notes
        .extend(short_lived_leaders(leadership.epoch(), &recovered.seals));
    Ok((loader.state, recovered, loader.ends))
}

/// Counts previous leaders that claimed an epoch and wrote nothing: one or two lost a race or were
/// ended; if there are more in a row, they die of something.
fn short_lived_leaders(epoch: u64, seals: &[Event]) -> Option<String> {
    let empty = |of: &u64| {
        let seal = |e: &Event| matches!(e, Event::Seal { epoch, bytes: 0, .. } if epoch == of);
        seals.iter().any(seal)
    };
    let died = (1..epoch).rev().take_while(empty).count();
    (died >= DIED_MIN).then(|| {
        format!(
            "the last {died} leaders died while taking over: the logs of the masters say how \
             cbsched ended; usually there is too little memory for the journal"
        )
    })
}

/// Looks up the groups of all users that have jobs: limits and administrators depend on them.
fn note_accounts(core: &mut Core) {
    let jobs = core.state.specs().map(|entry| entry.spec.uid);
    let uids: BTreeSet<u32> = jobs
        .chain(core.state.crons().map(|cron| cron.uid))
        .collect();
    let began = clock::boot_ms();
    for uid in uids {
        match inbox::account(uid) {
            Ok(Some(who)) => core.note_groups(&who.user, &who.groups),
            Ok(None) => {}
            // The lease is running: the other groups are looked up when their users request
            // something.
            Err(e) => return tracing::error!("{e}: groups of users are not known yet"),
        }
        if clock::boot_ms().saturating_sub(began) > ACCOUNTS_MS {
            return tracing::error!("the user database is slow: groups of users are not known yet");
        }
    }
}

/// Whether other processes write this name and a change of it requires a turn; the leader's own
/// files do not count.
fn is_written_by_others(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let inbox_dir = name.bytes().all(|b| b.is_ascii_digit());
    let host_dir = path.parent().is_some_and(|p| p.ends_with("hosts"));
    name.starts_with("r.") || name.starts_with("reports.") || inbox_dir || host_dir
}
