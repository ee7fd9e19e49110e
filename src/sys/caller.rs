//! What a command inherits from the shell that called it: umask, working directory, standard input.

use super::{Error, ErrorContext, Result};
use nix::sys::stat::Mode;
use std::io::{BufRead, IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Sets the umask of this process and returns the old one.
pub fn umask(mask: u32) -> u32 {
    if super::platform::simulated() {
        return mask;
    }
    nix::sys::stat::umask(Mode::from_bits_truncate(mask)).bits()
}

/// The umask of this thread, without changing it: in a program with several threads, others would
/// create files with the wrong umask in the meantime.
pub fn umask_seen() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    let mask = mask.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    mask.unwrap_or(0o022)
}

/// Runs `f` with a umask of its own, in a thread that shares neither umask nor working directory
/// with the rest of the process.
///
/// # Errors
/// The thread cannot be created, or the system refuses to separate it from the others.
pub fn with_private_umask<T: Send>(mask: u32, f: impl FnOnce() -> T + Send) -> Result<T> {
    let what = Path::new("a umask of its own");
    let body = || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS).at("make", what)?;
        umask(mask);
        Ok(f())
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("umask".to_owned());
        let thread = builder.spawn_scoped(scope, body);
        let joined = thread.at("start a thread for", what)?.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Writes a message for the user to standard error.
pub fn print_error(text: &str) {
    match super::platform::simulated() {
        true => tracing::info!("{text}"),
        false => eprintln!("{text}"),
    }
}

/// Columns of the terminal that is standard output; `None`: it is not a terminal, or its size is
/// unknown.
pub fn terminal_columns() -> Option<usize> {
    // SAFETY: an all-zero winsize is valid; the call fills it in.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a winsize, as the call requires.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The working directory under the user's name for it: `$PWD` if it names the same directory, since
/// the path of an automounter is valid on other hosts, unlike what it resolves to here.
pub fn working_directory() -> Result<PathBuf> {
    let real = std::env::current_dir().at("find", Path::new("the working directory"))?;
    let Some(named) = std::env::var_os("PWD").map(PathBuf::from) else {
        return Ok(real);
    };
    if named == real || !named.is_absolute() {
        return Ok(real);
    }
    match (std::fs::metadata(&named), std::fs::metadata(&real)) {
        (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()) => Ok(named),
        _ => Ok(real),
    }
}

/// True when standard input is a terminal.
pub fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Reads standard input to its end, at most `limit` bytes; more is an error (`InvalidData`).
pub fn read_stdin(limit: u64) -> Result<Vec<u8>> {
    let name = Path::new("standard input");
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .at("read", name)?;
    if bytes.len() as u64 > limit {
        let why = format!("larger than the limit of {limit} bytes");
        return Err(Error::invalid("read", name, why));
    }
    Ok(bytes)
}

/// Reads one line of standard input without its end, at most `limit` bytes; `None` at the end.
pub fn read_line(limit: u64) -> Result<Option<String>> {
    let name = Path::new("standard input");
    let mut line = String::new();
    let mut stdin = std::io::stdin().lock().take(limit);
    let n = stdin.read_line(&mut line).at("read", name)?;
    if n == 0 {
        return Ok(None);
    }
    if n as u64 == limit && !line.ends_with('\n') {
        let why = format!("a line longer than {limit} bytes");
        return Err(Error::invalid("read", name, why));
    }
    Ok(Some(line.trim_end_matches('\n').to_owned()))
}

/// The length of a regular file, links followed, and whether any user may execute it. `None` if it
/// does not exist or is something else.
pub fn regular_file(path: &Path) -> Option<(u64, bool)> {
    let meta = std::fs::metadata(path).ok()?;
    meta.is_file()
        .then(|| (meta.len(), meta.mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_directory_is_absolute() {
        assert!(working_directory().unwrap().is_absolute());
    }

    #[test]
    fn a_private_umask_is_not_the_process_s() {
        use std::os::unix::fs::PermissionsExt as _;
        let d = tempfile::tempdir().unwrap();
        let before = umask_seen();
        let made = with_private_umask(0o137, || {
            std::fs::write(d.path().join("x"), "").unwrap();
            umask_seen()
        });
        assert_eq!(umask_seen(), before);
        // A sandbox may refuse it and return an error.
        let Ok(within) = made else {
            println!("skipped: {made:?}");
            return;
        };
        assert_eq!(within, 0o137);
        let mode = std::fs::metadata(d.path().join("x")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o640);
    }

    #[test]
    fn a_directory_is_no_regular_file() {
        let d = tempfile::tempdir().unwrap();
        let path = d.path().join("x");
        std::fs::write(&path, "ab").unwrap();
        assert_eq!(regular_file(&path), Some((2, false)));
        assert_eq!(regular_file(d.path()), None);
    }
}
