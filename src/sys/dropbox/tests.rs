//! Tests drop boxes and files that must not be trusted, on a real file system.

use super::*;
use crate::sys::fs::{mkdir, publish};
use std::os::unix::fs::symlink;
use tempfile::tempdir;

fn refused<T>(r: &Dropping<T>) -> bool {
    matches!(r, Err(DropError::Refused(..)))
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn boxed() -> (tempfile::TempDir, DropBox) {
    let d = tempdir().unwrap();
    mkdir(&d.path().join("u"), 0o755).unwrap();
    publish(&d.path().join("u/req"), b"hello").unwrap();
    let b = DropBox::open(d.path()).unwrap();
    (d, b)
}

#[test]
fn reads_a_plain_file_with_its_owner() {
    let (_d, b) = boxed();
    let u = b.enter(name("u")).unwrap();
    let me = nix::unistd::geteuid().as_raw();
    assert_eq!((u.uid, u.open_to_all), (me, false));
    let got = u.read(name("req"), 5).unwrap();
    assert_eq!((got.bytes.as_slice(), got.uid), (b"hello".as_slice(), me));
}

#[test]
fn refuses_links_in_any_component() {
    let (d, b) = boxed();
    symlink("req", d.path().join("u/link")).unwrap();
    symlink("u", d.path().join("v")).unwrap();
    assert!(refused(&b.enter(name("v"))));
    assert!(refused(&b.enter(name(".."))));
    assert!(refused(&b.enter(name("u/req"))));
    let u = b.enter(name("u")).unwrap();
    for bad in ["link", "../u/req", "/etc/passwd", ""] {
        assert!(refused(&u.read(name(bad), 99_999)), "{bad}");
    }
}

#[test]
fn the_hand_walk_refuses_links_too() {
    let (d, b) = boxed();
    symlink("u", d.path().join("v")).unwrap();
    let f = OFlag::O_RDONLY | OFlag::O_NOFOLLOW;
    let root = b.dir.as_ref().unwrap().as_fd();
    assert!(walk(root, Path::new("v/req"), f).is_err());
    assert!(walk(root, Path::new("u/req"), f).is_ok());
}

#[test]
fn refuses_a_second_name_a_pipe_a_set_id_bit_and_a_large_file() {
    let (d, b) = boxed();
    let u = b.enter(name("u")).unwrap();
    std::fs::hard_link(d.path().join("u/req"), d.path().join("u/two")).unwrap();
    assert!(refused(&u.read(name("req"), 99)));
    let pipe = d.path().join("u/pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    assert!(refused(&u.read(name("pipe"), 99)));
    publish(&d.path().join("u/big"), &[0; 100]).unwrap();
    assert!(refused(&u.read(name("big"), 99)));
    publish(&d.path().join("u/setuid"), b"x").unwrap();
    fs::chmod(&d.path().join("u/setuid"), 0o4755).unwrap();
    assert!(refused(&u.read(name("setuid"), 99)));
}

#[test]
fn a_missing_file_is_a_system_answer() {
    let (_d, b) = boxed();
    let got = b.enter(name("u")).unwrap().read(name("none"), 9);
    assert!(matches!(got, Err(DropError::System(e)) if e.is_not_found()));
}

#[test]
fn an_open_box_stays_itself_whatever_its_name_becomes() {
    let (d, b) = boxed();
    let victim = d.path().join("victim");
    mkdir(&victim, 0o755).unwrap();
    publish(&victim.join("req"), b"precious").unwrap();
    let u = b.enter(name("u")).unwrap();
    std::fs::rename(d.path().join("u"), d.path().join("away")).unwrap();
    symlink("victim", d.path().join("u")).unwrap();
    assert_eq!(u.names(9).unwrap().len(), 1);
    assert_eq!(u.read(name("req"), 9).unwrap().bytes, b"hello");
    u.move_to(name("req"), &d.path().join("moved")).unwrap();
    u.remove(name("req")).unwrap();
    assert_eq!(std::fs::read(d.path().join("moved")).unwrap(), b"hello");
    assert_eq!(std::fs::read(victim.join("req")).unwrap(), b"precious");
    assert!(refused(&b.enter(name("u"))));
}

#[test]
fn a_directory_is_not_moved_out_of_its_box() {
    let (d, b) = boxed();
    mkdir(&d.path().join("u/dir"), 0o755).unwrap();
    let u = b.enter(name("u")).unwrap();
    assert!(u.move_to(name("dir"), &d.path().join("x")).is_err());
    u.remove(name("dir")).unwrap();
    assert!(!d.path().join("u/dir").exists());
}

#[test]
fn what_does_not_belong_is_cleared_and_a_full_directory_is_set_beside() {
    let (d, b) = boxed();
    publish(&d.path().join("file"), b"x").unwrap();
    symlink("u", d.path().join("link")).unwrap();
    for junk in ["file", "link"] {
        assert!(b.entry(name(junk)).unwrap().unwrap().kind != Kind::Dir);
        b.clear(name(junk), ".h").unwrap();
        assert_eq!(b.entry(name(junk)).unwrap(), None);
    }
    b.clear(name("u"), ".set-aside").unwrap();
    assert!(d.path().join(".set-aside/req").exists() && !d.path().join("u").exists());
}

#[test]
fn only_old_asides_are_swept() {
    let (d, b) = boxed();
    publish(&d.path().join("u/.x.h.1.0.tmp"), b"").unwrap();
    let u = b.enter(name("u")).unwrap();
    let now = crate::sys::clock::wall_ms();
    assert_eq!(u.sweep(now, 60_000).unwrap(), 0);
    assert_eq!(u.sweep(now + 120_000, 60_000).unwrap(), 1);
    assert_eq!(u.names(9).unwrap().len(), 1);
}
