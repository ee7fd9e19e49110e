//! The application templates of a new development cluster: those of the checkout or installation of
//! its programs. Copies them once; after that, the directory belongs to the user.

use crate::client::Fail;
use crate::spool::Layout;
use crate::sys::{detach, fs};

/// Directories above the programs that are looked at.
const ABOVE: usize = 4;
/// Most files, and the largest one in bytes.
const FILES_MAX: usize = 1000;
const FILE_MAX: u64 = 1 << 20;

/// Copies them to the share, unless it has some.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn copy(layout: &Layout) -> Result<(), Fail> {
    let to = layout.apps_dir();
    if fs::exists(&to) {
        return Ok(());
    }
    let programs = detach::own_directory()?;
    let above = programs.ancestors().take(ABOVE);
    let mut places =
        above.flat_map(|dir| [dir.join("etc/apps.d"), dir.join("share/corral/apps.d")]);
    let Some(from) = places.find(|dir| fs::exists(&dir.join("session.sh"))) else {
        return Ok(());
    };
    fs::mkdir_p(&to, 0o755)?;
    for name in fs::names(&from, FILES_MAX)? {
        let bytes = fs::read_small(&from.join(&name), FILE_MAX)?;
        fs::publish(&to.join(&name), &bytes)?;
    }
    Ok(())
}
