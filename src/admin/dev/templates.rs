//! The application templates of a new development cluster: copied once from the checkout or
//! installation of its programs. After that, the directory belongs to the user.

use crate::client::Fail;
use crate::spool::Layout;
use crate::sys::{detach, fs};

/// Number of directories above the programs that are searched.
const ABOVE: usize = 4;
/// Maximum number of files, and maximum size of a file in bytes.
const FILES_MAX: usize = 1000;
const FILE_MAX: u64 = 1 << 20;

/// Copies the templates to the share, unless it has some.
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
