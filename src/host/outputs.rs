//! The shepherd's side of a task's files: opens them as the user, writes the report, cleans up.
//!
//! Carries out what `task::output` decides. Never opens a user's path under the system's identity.

use crate::model::AttemptId;
use crate::record::report::Ended;
use crate::sys::launch::{self, ProcessIdentity};
use crate::sys::{self, clock, fs, lock, userfile};
use crate::task::output::{self, JobReport, Mode, OutputTarget};
use crate::task::spec::{TaskBase, TaskSpec};
use crate::text::subst::{has_index, subst};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

/// How long the end of a task waits for another task that appends to the same file (ms).
const APPEND_LOCK_MS: u64 = 10_000;

/// The open files of one task.
pub(super) struct Files {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    out_path: PathBuf,
    mode: Mode,
    /// The offset of the report.
    head_at: u64,
    /// The hidden file and the opened target in mode `Aside`.
    hidden: Option<(PathBuf, File)>,
    /// Remove the file at the end if it is empty.
    remove_if_empty: bool,
    started: String,
    /// Whether input, output and error output are connected to a waiting command.
    connected: [bool; 3],
    /// Input and output are one terminal.
    is_terminal: bool,
}

/// Runs `f` under an identity, if one is given.
pub(super) fn run_as<T>(
    who: Option<&ProcessIdentity>,
    f: impl FnOnce() -> sys::Result<T>,
) -> sys::Result<T> {
    match who {
        None => f(),
        // Root opens its files without a switch; its groups add no rights.
        Some(who) if who.uid == 0 => f(),
        Some(who) => {
            launch::switch_identity(who)?;
            let result = f();
            launch::resume_root();
            result
        }
    }
}

/// Gives the local copy of the job's script, if it has one, to the job's user alone.
pub(super) fn hand_script(task: &TaskSpec, user: Option<&ProcessIdentity>) -> sys::Result<()> {
    if task.scratch.is_empty() {
        return Ok(());
    }
    userfile::hand_script(
        Path::new(&task.scratch),
        user.map(|user| (user.uid, user.gid)),
    )
}

/// Opens everything and enters the working directory, as the user.
pub(super) fn open(
    task: &TaskSpec,
    base: &TaskBase,
    user: Option<&ProcessIdentity>,
    service: Option<&ProcessIdentity>,
    host: &str,
) -> sys::Result<Files> {
    let mut files = Files {
        stdin: None,
        stdout: None,
        stderr: None,
        out_path: PathBuf::new(),
        mode: Mode::Plain,
        head_at: 0,
        hidden: None,
        remove_if_empty: false,
        started: String::new(),
        connected: [false; 3],
        is_terminal: false,
    };
    userfile::set_umask(base.umask);
    // The output of an interactive job goes to the waiting command, if that can be reached.
    if base.caller.is_none() {
        files.open_default(task, base, user, service)?;
    }
    if let Err(e) = files.open_rest(task, base, user, service, host) {
        if files.remove_if_empty {
            let _ = run_as(service, || files.remove_empty());
        }
        return Err(e);
    }
    Ok(files)
}

fn special(path: &str) -> bool {
    path.is_empty() || path == "/dev/null"
}

impl Files {
    /// Opens the default output, if the job specified no other.
    pub(super) fn open_default(
        &mut self,
        task: &TaskSpec,
        base: &TaskBase,
        user: Option<&ProcessIdentity>,
        service: Option<&ProcessIdentity>,
    ) -> sys::Result<()> {
        if base.stdout.ours && !task.out.path.is_empty() {
            // The system's directories must be accessible whatever the job's umask.
            userfile::set_umask(0o022);
            let most = if task.out.private { 0o600 } else { 0o666 };
            let opened = self.open_in_system_dir(&task.out.path, user, service, most & !base.umask);
            userfile::set_umask(base.umask);
            opened?;
        }
        Ok(())
    }

    /// Uses the files that are connected to a waiting command as input, output and error output.
    pub(super) fn use_connected_files(&mut self, ends: [Option<File>; 3], is_terminal: bool) {
        let [stdin, stdout, stderr] = ends;
        self.is_terminal = is_terminal;
        let places = [&mut self.stdin, &mut self.stdout, &mut self.stderr];
        for (n, (place, end)) in places.into_iter().zip([stdin, stdout, stderr]).enumerate() {
            if end.is_some() {
                (*place, self.connected[n]) = (end, true);
            }
        }
    }

    /// Closes the connected files, which the job has now: while this process has them open too,
    /// their end cannot be seen.
    pub(super) fn close_connected_files(&mut self) {
        let places = [&mut self.stdin, &mut self.stdout, &mut self.stderr];
        for (place, connected) in places.into_iter().zip(self.connected) {
            if connected {
                *place = None;
            }
        }
        self.is_terminal = false;
    }

    /// Whether input and output are a terminal that becomes the job's controlling terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Opens everything except the default output, and reserves the report's space in the output.
    fn open_rest(
        &mut self,
        task: &TaskSpec,
        base: &TaskBase,
        user: Option<&ProcessIdentity>,
        service: Option<&ProcessIdentity>,
        host: &str,
    ) -> sys::Result<()> {
        let stdin_ours = base.stdin_ours && !base.stdin.is_empty();
        if stdin_ours {
            let spooled = Path::new(&base.stdin);
            self.stdin = Some(run_as(service, || userfile::open_input(spooled))?);
        }
        run_as(user, || {
            let cwd = Path::new(&base.cwd);
            match userfile::enter(cwd) {
                Err(e) if base.cwd_create && e.is_not_found() => {
                    fs::mkdir_p(cwd, 0o777)?;
                    userfile::enter(cwd)?;
                }
                other => other?,
            }
            if !base.image.is_empty() {
                userfile::find(Path::new(&base.image))?;
            }
            self.open_users(task, base, !stdin_ours)
        })?;
        if self.mode == Mode::HeadFirst {
            self.started = clock::local_text(clock::wall_ms());
            let text = self.report(task, base, host, None);
            if let (Some(text), Some(file)) = (text, self.stdout.as_ref()) {
                self.head_at = userfile::write_head(file, &self.out_path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Opens the default output in the system's directory, and gives it to the user if possible.
    fn open_in_system_dir(
        &mut self,
        path: &str,
        user: Option<&ProcessIdentity>,
        service: Option<&ProcessIdentity>,
        mode: u32,
    ) -> sys::Result<()> {
        let path = Path::new(path);
        let file_owner = user.filter(|u| u.uid != sys::users::effective_uid());
        // No process may open it before it has its mode: it could read the file from then on.
        let mask = match (file_owner, service) {
            (Some(_), _) => 0o077,
            (None, Some(_)) => 0o022,
            (None, None) => 0o777 & !mode,
        };
        let make = || {
            userfile::set_umask(mask);
            let made = userfile::open_output(path, true);
            userfile::set_umask(0o022);
            made
        };
        let file = run_as(service, || {
            match make() {
                Err(e) if e.is_not_found() => {
                    fs::mkdir_p(fs::parent(path), 0o755)?;
                    make()
                }
                // The file of an earlier attempt was given to the user; the directory is still
                // ours.
                Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                    fs::remove(path)?;
                    make()
                }
                other => other,
            }
        })?;
        if let Some(u) = file_owner
            && userfile::give_to(&file, path, (u.uid, u.gid), mode).is_err()
        {
            // It remains the service account's; its user reads it like all users.
            run_as(service, || userfile::set_mode(&file, path, 0o644))?;
        }
        self.out_path = path.to_path_buf();
        self.stdout = Some(file);
        self.remove_if_empty = true;
        Ok(())
    }

    fn open_users(&mut self, task: &TaskSpec, base: &TaskBase, stdin: bool) -> sys::Result<()> {
        let id = task.a.j.id;
        let idx = task.a.j.idx.saturating_sub(base.index_shift);
        if stdin && !special(&base.stdin) {
            let path = subst(&base.stdin, id, idx);
            self.stdin = Some(userfile::open_input(Path::new(&path))?);
        }
        if !base.stdout.ours && !special(&base.stdout.path) {
            let path = PathBuf::from(subst(&base.stdout.path, id, idx));
            let shared = task.array && !has_index(&base.stdout.path);
            self.open_stdout(path, base, task.a, shared)?;
        }
        if !special(&base.stderr.path) {
            let path = subst(&base.stderr.path, id, idx);
            let same = base.stderr.path == base.stdout.path;
            if !same {
                let own = !task.array || has_index(&base.stderr.path);
                let over = base.stderr.over && own;
                self.stderr = Some(userfile::open_output(Path::new(&path), over)?);
            }
        }
        Ok(())
    }

    fn open_stdout(
        &mut self,
        path: PathBuf,
        base: &TaskBase,
        a: AttemptId,
        shared: bool,
    ) -> sys::Result<()> {
        // Elements that share a file would truncate each other's output.
        let overwrite = base.stdout.over && !shared;
        let target = userfile::open_output(&path, overwrite)?;
        self.mode = Mode::Plain;
        if base.report.is_some() {
            let st = fs::stat_file(&target, &path)?;
            let regular = st.kind == fs::Kind::File;
            self.mode = output::mode(&OutputTarget {
                regular,
                empty: st.len == 0,
                overwrite,
                shared,
            });
        }
        if self.mode == Mode::Aside {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            let hidden = path.with_file_name(output::spool_name(&name.unwrap_or_default(), a));
            self.stdout = Some(userfile::open_aside(&hidden)?);
            self.hidden = Some((hidden, target));
            self.started = clock::local_text(clock::wall_ms());
        } else {
            self.stdout = Some(target);
        }
        self.out_path = path;
        Ok(())
    }

    /// Descriptors for 0, 1 and 2, `null` where there is no file.
    pub(super) fn stdio(&self, null: RawFd) -> [RawFd; 3] {
        let fd = |f: &Option<File>| f.as_ref().map(|f| f.as_raw_fd());
        let out = fd(&self.stdout).unwrap_or(null);
        [
            fd(&self.stdin).unwrap_or(null),
            out,
            fd(&self.stderr).unwrap_or(out),
        ]
    }

    /// Writes a message to the job's error output.
    pub(super) fn write_error(&self, text: &str) {
        if let Some(file) = self.stderr.as_ref().or(self.stdout.as_ref()) {
            let _ = userfile::write_head(file, &self.out_path, format!("{text}\n").as_bytes());
        }
    }

    /// Completes the output: the report, the hidden file, an empty default output. Returns problems
    /// as text for the record.
    pub(super) fn finish(
        &mut self,
        task: &TaskSpec,
        base: &TaskBase,
        user: Option<&ProcessIdentity>,
        service: Option<&ProcessIdentity>,
        host: &str,
        ended: &Ended,
    ) -> Option<String> {
        let done = match self.mode {
            Mode::Plain if self.remove_if_empty => run_as(service, || self.remove_empty()),
            Mode::Plain => Ok(()),
            Mode::HeadFirst => self.fill_in(task, base, host, ended),
            Mode::Aside => {
                let text = self
                    .report(task, base, host, Some(ended))
                    .unwrap_or_default();
                run_as(user, || self.append_aside(&text))
            }
        };
        done.err().map(|e| e.to_string())
    }

    fn remove_empty(&self) -> sys::Result<()> {
        let Some(file) = self.stdout.as_ref() else {
            return Ok(());
        };
        if fs::stat_file(file, &self.out_path)?.len == 0 {
            fs::remove(&self.out_path)?;
        }
        Ok(())
    }

    fn fill_in(&self, task: &TaskSpec, base: &TaskBase, host: &str, e: &Ended) -> sys::Result<()> {
        let text = self.report(task, base, host, Some(e));
        let (Some(text), Some(file)) = (text, self.stdout.as_ref()) else {
            return Ok(());
        };
        userfile::overwrite_at(file, &self.out_path, self.head_at, text.as_bytes())
    }

    fn append_aside(&self, text: &str) -> sys::Result<()> {
        let Some((hidden, target)) = self.hidden.as_ref() else {
            return Ok(());
        };
        let Some(from) = self.stdout.as_ref() else {
            return Ok(());
        };
        // Two elements that end at the same time take turns; a lock that is not released in time is
        // ignored.
        let append_lock = lock::wait_for(target, APPEND_LOCK_MS);
        userfile::append_all(target, &self.out_path, text.as_bytes(), from)?;
        drop(append_lock);
        fs::remove(hidden)
    }

    fn report(
        &self,
        task: &TaskSpec,
        base: &TaskBase,
        host: &str,
        ended: Option<&Ended>,
    ) -> Option<String> {
        let end_text = ended.map(|e| clock::local_text(e.t));
        let submitted = clock::local_text(task.header.as_ref()?.submitted);
        Some(output::render(&JobReport {
            facts: base.report.as_ref()?,
            header: task.header.as_ref()?,
            host,
            cwd: &base.cwd,
            a: task.a,
            submitted: &submitted,
            started: &self.started,
            ended: ended.zip(end_text.as_deref()),
        }))
    }
}
