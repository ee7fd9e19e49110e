//! Files of the simulator: workloads in, tables out. Owns the limit of their size, decompression of
//! `.gz` (the form of archives of logs) and the rule that an existing device is written to, not
//! replaced. Never knows what is in a file.

use crate::sys;
use std::io::{Read, Write};
use std::path::Path;

/// Maximum size of an input, unpacked, in bytes.
const INPUT_MAX: u64 = 4 << 30;

/// Reads a file; if it starts like gzip data, it is unpacked, regardless of its name.
///
/// # Errors
/// The file cannot be read, is damaged or larger than 4 GiB.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = sys::fs::read_small(path, INPUT_MAX).map_err(|e| e.to_string())?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len() * 4);
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .take(INPUT_MAX + 1)
        .read_to_end(&mut out)
        .map_err(|e| format!("cannot unpack {}: {e}", path.display()))?;
    if out.len() as u64 > INPUT_MAX {
        return Err(format!(
            "cannot unpack {}: larger than the limit of {INPUT_MAX} bytes",
            path.display()
        ));
    }
    Ok(out)
}

/// Writes a result; `-` is standard output.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let name = path.display();
    if path == Path::new("-") {
        let done = std::io::stdout().lock().write_all(bytes);
        return done.map_err(|e| format!("cannot write standard output: {e}"));
    }
    // Renaming a new file over /dev/null would replace the device for all users.
    if sys::fs::exists(path) && sys::caller::regular_file(path).is_none() {
        let mut device = sys::fs::open_rw(path).map_err(|e| e.to_string())?;
        let done = device.write_all(bytes);
        return done.map_err(|e| format!("cannot write {name}: {e}"));
    }
    sys::fs::publish(path, bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        gz.finish().unwrap()
    }

    #[test]
    fn packed_files_of_several_members_read_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, [packed("1 2\n"), packed("3 4\n")].concat()).unwrap();
        assert_eq!(read(&path).unwrap(), b"1 2\n3 4\n");
    }

    #[test]
    fn a_packed_file_that_was_cut_off_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.gz");
        let bytes = packed(&"1 2 3\n".repeat(1000));
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(read(&path).unwrap_err().contains("log.gz"));
    }

    #[test]
    fn a_device_stays_a_device() {
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(sys::caller::regular_file(Path::new("/dev/null")).is_none());
    }
}
