//! The numbers of a device node.

use crate::model::DeviceNode;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The device node at this path; `None`: it is not a device, or cannot be examined.
pub fn node_at(path: &Path) -> Option<DeviceNode> {
    let found = std::fs::metadata(path).ok()?;
    let (kind, number) = (found.file_type(), found.rdev());
    (kind.is_char_device() || kind.is_block_device()).then(|| DeviceNode {
        block: kind.is_block_device(),
        major: libc::major(number),
        minor: libc::minor(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_numbers_and_other_files_have_none() {
        assert_eq!(node_at(Path::new("/dev/null")), "1:3".parse().ok());
        for other in ["/dev", "/proc/self/status", "/dev/there-is-none"] {
            assert_eq!(node_at(Path::new(other)), None);
        }
    }
}
