//! Tests paths that must not lead out of the directory, and the life of files.

use super::change::part_name_of;
use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

struct TestDirectory {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl TestDirectory {
    /// `home` with a file and a directory, and a file outside of it.
    fn new() -> TestDirectory {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let root = top.join("home");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/a"), "inside").unwrap();
        fs::write(top.join("outside"), "outside").unwrap();
        TestDirectory { dir, root }
    }

    fn spot<'s>(&'s self, path: &'s str) -> PathBelow<'s> {
        PathBelow {
            root: &self.root,
            path: Path::new(path),
        }
    }

    fn text(&self, path: &str) -> std::result::Result<String, String> {
        let chunk = read_at(self.spot(path), 0, 100).map_err(|e| e.to_string())?;
        Ok(String::from_utf8(chunk.bytes).unwrap())
    }
}

#[test]
fn a_path_leads_nowhere_but_below_its_directory() {
    let fixture = TestDirectory::new();
    let top = fixture.root.parent().unwrap();
    symlink("a", fixture.root.join("sub/near")).unwrap();
    symlink(fixture.root.join("sub"), fixture.root.join("absolute")).unwrap();
    symlink("../outside", fixture.root.join("up")).unwrap();
    symlink("sub/../../outside", fixture.root.join("round")).unwrap();
    symlink(top.join("outside"), fixture.root.join("out")).unwrap();
    symlink(top, fixture.root.join("above")).unwrap();
    symlink("loop", fixture.root.join("loop")).unwrap();
    for good in [
        "sub/a",
        "./sub//a",
        "sub/near",
        "absolute/a",
        "absolute/near",
    ] {
        assert_eq!(fixture.text(good).as_deref(), Ok("inside"), "{good}");
    }
    for (bad, want) in [
        ("../outside", "must not"),
        ("sub/../../outside", "must not"),
        ("/etc/passwd", "must not"),
        ("up", "leads out"),
        ("round", "leads out"),
        ("out", "leads out"),
        ("above/outside", "leads out"),
        ("loop", "symbolic links"),
        ("sub/a/b", "Not a directory"),
        ("sub", "Is a directory"),
        ("a\0b", "zero byte"),
    ] {
        let text = fixture.text(bad).expect_err(bad);
        assert!(text.contains(want), "{bad}: {text}");
    }
    let far = "x/".repeat(PATH_BYTES_MAX);
    assert!(fixture.text(&far).unwrap_err().contains("4096"));
    for root in ["home", "", "/tmp/../etc"] {
        let spot = PathBelow {
            root: Path::new(root),
            path: Path::new("passwd"),
        };
        assert!(read_at(spot, 0, 1).is_err(), "{root}");
    }
}

#[test]
fn a_link_that_another_could_have_made_is_not_followed() {
    let fixture = TestDirectory::new();
    if lchown(fixture.root.join("sub"), Some(4711), None).is_err() {
        println!("skipped: only root can give files away");
        return;
    }
    symlink("sub/a", fixture.root.join("own")).unwrap();
    symlink("sub/a", fixture.root.join("foreign")).unwrap();
    lchown(fixture.root.join("foreign"), Some(4711), None).unwrap();
    symlink("a", fixture.root.join("sub/theirs")).unwrap();
    lchown(fixture.root.join("sub/theirs"), Some(4711), None).unwrap();
    let mode = |name: &str, bits: u32| {
        fs::set_permissions(fixture.root.join(name), fs::Permissions::from_mode(bits)).unwrap();
    };
    mode("", 0o1777);
    assert!(fixture.text("own").is_ok());
    assert!(
        fixture
            .text("foreign")
            .unwrap_err()
            .contains("another user")
    );
    assert!(
        fixture.text("sub/theirs").is_ok(),
        "in a directory of theirs"
    );
    mode("sub", 0o775);
    assert!(
        fixture
            .text("sub/theirs")
            .unwrap_err()
            .contains("another user")
    );
    mode("", 0o755);
    assert!(
        fixture.text("foreign").is_err(),
        "it is not the directory's owner's"
    );
}

#[test]
fn what_is_no_file_is_not_opened() {
    let fixture = TestDirectory::new();
    let pipe = fixture.root.join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    assert!(
        fixture
            .text("pipe")
            .unwrap_err()
            .contains("not a regular file")
    );
    let device = PathBelow {
        root: Path::new("/dev"),
        path: Path::new("null"),
    };
    assert!(read_at(device, 0, 1).is_err());
    let part = Part {
        offset: 0,
        bytes: b"x",
    };
    assert!(write_part(fixture.spot("pipe"), part).is_err());
    let entry = list(fixture.spot(""), 0, 10).unwrap().entries.remove(0);
    assert_eq!(
        (entry.name.to_str(), entry.kind),
        (Some("pipe"), NameKind::Other)
    );
}

#[test]
fn names_are_listed_as_they_are_a_page_at_a_time() {
    let fixture = TestDirectory::new();
    let raw = OsStr::from_bytes(b"b\xff<i>");
    fs::write(fixture.root.join(raw), "12").unwrap();
    symlink("/etc", fixture.root.join("c")).unwrap();
    let all = list(fixture.spot(""), 0, 10).unwrap();
    let kinds: Vec<NameKind> = all.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [NameKind::File, NameKind::Link, NameKind::Dir]);
    assert_eq!(
        (all.entries[0].name.as_os_str(), all.entries[0].size),
        (raw, 2)
    );
    assert_eq!(all.entries[1].target.as_deref(), Some(OsStr::new("/etc")));
    let page = list(fixture.spot(""), 1, 1).unwrap();
    assert_eq!((page.entries.len(), page.total, page.is_cut), (1, 3, false));
    let spot = PathBelow {
        root: &fixture.root,
        path: Path::new(raw),
    };
    assert_eq!(read_at(spot, 1, 9).unwrap().bytes, b"2");
    assert!(fixture.dir.path().exists());
}

#[test]
fn a_file_comes_in_parts_and_gets_its_name_when_all_have_come() {
    let fixture = TestDirectory::new();
    let spot = fixture.spot("sub/new");
    let put = |offset: u64, bytes: &[u8]| write_part(spot, Part { offset, bytes }).unwrap();
    assert_eq!(part_size(spot).unwrap(), 0);
    assert_eq!(put(0, b"abc"), 3);
    assert_eq!(put(2, b"zzz"), 3, "another offset adds nothing");
    assert_eq!(put(7, b"zzz"), 3);
    assert_eq!(put(3, b"de"), 5);
    assert_eq!(part_size(spot).unwrap(), 5);
    assert!(finish_part(spot, 9, false).is_err(), "not all has come");
    assert!(fixture.text("sub/new").is_err());
    finish_part(spot, 5, false).unwrap();
    assert_eq!(fixture.text("sub/new").unwrap(), "abcde");
    assert!(check_upload(spot, false).unwrap_err().is_taken());
    assert_eq!(put(0, b"old"), 3);
    assert_eq!(put(0, b"x"), 1, "it begins anew");
    assert!(finish_part(spot, 1, false).unwrap_err().is_taken());
    finish_part(spot, 1, true).unwrap();
    assert_eq!(fixture.text("sub/new").unwrap(), "x");
    let left = fs::read_dir(fixture.root.join("sub")).unwrap().count();
    assert_eq!(left, 2, "no part is left");
}

#[test]
fn an_upload_goes_through_no_link() {
    let fixture = TestDirectory::new();
    let outside = fixture.root.parent().unwrap().join("outside");
    symlink(&outside, fixture.root.join(part_name_of("f"))).unwrap();
    symlink(&outside, fixture.root.join("link")).unwrap();
    fs::hard_link(&outside, fixture.root.join(part_name_of("hard"))).unwrap();
    for name in ["f", "link", "hard"] {
        let part = Part {
            offset: 0,
            bytes: b"evil",
        };
        assert!(write_part(fixture.spot(name), part).is_err(), "{name}");
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
}

#[test]
fn names_are_made_changed_and_removed_and_links_are_not_followed() {
    let fixture = TestDirectory::new();
    let outside = fixture.root.parent().unwrap().join("outside");
    make_dir(fixture.spot("new")).unwrap();
    assert!(make_dir(fixture.spot("new")).unwrap_err().is_taken());
    rename(fixture.spot("sub/a"), fixture.spot("new/b")).unwrap();
    assert_eq!(fixture.text("new/b").unwrap(), "inside");
    fs::write(fixture.root.join("c"), "c").unwrap();
    assert!(rename(fixture.spot("c"), fixture.spot("new/b")).is_err());
    assert!(rename(fixture.spot("c"), fixture.spot("../c")).is_err());
    let full = remove(fixture.spot("new")).unwrap_err().to_string();
    assert!(full.contains("not empty"), "{full}");
    symlink(&outside, fixture.root.join("link")).unwrap();
    for name in ["link", "new/b", "new", "sub", "c"] {
        remove(fixture.spot(name)).unwrap();
    }
    assert!(outside.exists());
    assert!(
        remove(fixture.spot("")).is_err(),
        "the directory itself stays"
    );
    assert_eq!(list(fixture.spot(""), 0, 9).unwrap().total, 0);
}
