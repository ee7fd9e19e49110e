//! `cadmin journal export FILE`: an archive with everything that is needed to read the past of a
//! cluster: journal, snapshots, configurations, accounting. Unpacked, it is a shared directory
//! without daemons, for `cjobs --at`, `chist`, `cadmin journal`, `cacct` and `cbsim when`.
//!
//! Only reads the share, each file up to the length that it had when it was opened. The archive
//! appears under its name when it is complete.

use crate::client::env::Site;
use crate::client::exit::{Exit, Fail};
use crate::client::read::{OWN_ONLY, Source};
use crate::journal;
use crate::language::answer;
use crate::show::history::range;
use crate::spool::Layout;
use crate::sys;
use crate::sys::append::Appender;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use std::io::{Read, Result as IoResult, Write};
use std::path::{Path, PathBuf};

/// Number of bytes read or written at a time.
const CHUNK: usize = 1 << 20;
/// Maximum number of names in one directory.
const NAMES_MAX: usize = 1_000_000;
/// Depth to which directories are followed (`acct/2026-11`).
const DEPTH: usize = 2;

/// Packs the history of the cluster into an archive.
#[derive(Args, Debug)]
pub(super) struct Export {
    /// The archive to create (.tar.gz); it must not exist yet.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only the files that states since this time need: 25/14:30, 2026-11-25T14:30, 30h (ago).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

/// Runs the export.
///
/// # Errors
/// It is not permitted, a time is invalid, a file cannot be read, or the archive cannot be written.
pub(super) fn run(args: &Export) -> Result<Exit, Fail> {
    let site = Site::find()?;
    let source = Source::of("cadmin journal export", site);
    if source.me.uid != 0 && !source.is_service() {
        let params = source.params()?;
        if !source.may_see_all(&params) {
            return Err(Fail::permission(OWN_ONLY));
        }
    }
    let cluster = source.cluster()?;
    let since = args.since.as_deref().map(moment).transpose()?;
    let layout = &source.layout;
    let files = journal::needed_since(layout, &cluster.cluster, since)
        .map_err(|e| Fail::system(e.to_string()))?;
    let mut files: Vec<PathBuf> = files;
    files.extend(history_files(layout));
    let bytes = pack(layout, &files, &args.file).map_err(|e| {
        let path = args.file.display();
        Fail::system(format!(
            "{path}: {}; no archive was created",
            sys::reason(&e)
        ))
    })?;
    answer!(
        "{} files, {} MB packed, in {}",
        files.len(),
        bytes.div_ceil(1 << 20),
        args.file.display()
    );
    Ok(Exit::Ok)
}

fn moment(word: &str) -> Result<i64, Fail> {
    range::moment(word, sys::clock::wall_ms(), &TimeZone::system())
        .map_err(|e| Fail::usage(format!("--since: {e}\nhint: {}", range::MOMENT_HINT)))
}

/// The existing files that readers of the past use beside journal and snapshots.
fn history_files(layout: &Layout) -> Vec<PathBuf> {
    let mut out = vec![layout.cluster(), layout.config()];
    list_below(&layout.acct(), DEPTH, &mut out);
    let configs = sys::fs::list_dir(&layout.history(), NAMES_MAX).unwrap_or_default();
    let configs = configs.iter().filter_map(|e| e.text());
    let configs = configs.filter(|name| Layout::is_past_config(name));
    out.extend(configs.map(|name| layout.history().join(name)));
    let hosts = sys::fs::list_dir(&layout.hosts(), NAMES_MAX).unwrap_or_default();
    let hosts = hosts.iter().filter_map(|e| e.text());
    out.extend(hosts.map(|host| layout.load(host)));
    out.retain(|path| sys::fs::stat(path).is_ok_and(|s| s.is_some()));
    out
}

fn list_below(dir: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    for entry in sys::fs::list_dir(dir, NAMES_MAX).unwrap_or_default() {
        let Some(name) = entry.text().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        match name.ends_with(".yaml") {
            true => out.push(dir.join(name)),
            false if depth > 1 => list_below(&dir.join(name), depth - 1, out),
            false => {}
        }
    }
}

/// Writes the archive; returns its size in bytes.
fn pack(layout: &Layout, files: &[PathBuf], to: &Path) -> IoResult<u64> {
    if sys::fs::exists(to) {
        let text = "it exists already";
        return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let aside = to.with_file_name(format!(".{name}.{}.tmp", sys::proc::own_pid()));
    let packed = write(layout, files, &aside);
    let done = packed.and_then(|bytes| {
        sys::fs::rename(&aside, to).map_err(to_io_error)?;
        Ok(bytes)
    });
    if done.is_err() {
        drop(sys::fs::remove(&aside));
    }
    done
}

fn write(layout: &Layout, files: &[PathBuf], aside: &Path) -> IoResult<u64> {
    let sink = ArchiveFile {
        app: Appender::create_new(aside).map_err(to_io_error)?,
        buf: Vec::new(),
    };
    // Users who may not see others' jobs must not find them here.
    sys::fs::chmod(aside, 0o600).map_err(to_io_error)?;
    let mut tar = tar::Builder::new(GzEncoder::new(sink, Compression::fast()));
    for path in files {
        let Some(stat) = sys::fs::stat(path).map_err(to_io_error)? else {
            // The file was removed by compaction after it was listed.
            continue;
        };
        let name = path.strip_prefix(layout.root()).unwrap_or(path);
        let mut header = tar::Header::new_gnu();
        header.set_size(stat.len);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(stat.mtime_ms / 1000).unwrap_or(0));
        let content = GrowingFile {
            path,
            at: 0,
            len: stat.len,
        };
        tar.append_data(&mut header, name, content)?;
    }
    let mut sink = tar.into_inner()?.finish()?;
    sink.flush()?;
    sink.app.sync_all().map_err(to_io_error)?;
    Ok(sink.app.valid_len())
}

fn to_io_error(e: sys::Error) -> std::io::Error {
    std::io::Error::other(e.to_string())
}

/// The first `len` bytes of a file that may be growing.
struct GrowingFile<'a> {
    path: &'a Path,
    at: u64,
    len: u64,
}

impl Read for GrowingFile<'_> {
    fn read(&mut self, buf: &mut [u8]) -> IoResult<usize> {
        let want = (self.len - self.at).min(buf.len().min(CHUNK) as u64) as usize;
        if want == 0 {
            return Ok(0);
        }
        let chunk = sys::fs::read_from(self.path, self.at, want).map_err(to_io_error)?;
        if chunk.bytes.is_empty() {
            let text = format!("{} became shorter", self.path.display());
            return Err(std::io::Error::other(text));
        }
        buf[..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
        self.at += chunk.bytes.len() as u64;
        Ok(chunk.bytes.len())
    }
}

/// The file of the archive.
struct ArchiveFile {
    app: Appender,
    buf: Vec<u8>,
}

impl Write for ArchiveFile {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.buf.extend_from_slice(bytes);
        if self.buf.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        if !self.buf.is_empty() {
            self.app.append(&self.buf).map_err(to_io_error)?;
            self.buf.clear();
        }
        Ok(())
    }
}
