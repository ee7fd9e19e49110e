//! Tests the far end with a near end in the test, and with programs that listen on this machine.

use super::*;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// The near end of a far end that runs in a thread.
struct TestClient {
    socket: File,
    came: Vec<u8>,
}

impl TestClient {
    fn send(&mut self, frame: &Frame) {
        let mut out = Vec::new();
        frame.put(&mut out);
        (&self.socket).write_all(&out).unwrap();
    }

    /// The next frame that is not a grant.
    fn next(&mut self) -> Frame {
        loop {
            match Frame::take_frame(&mut self.came).unwrap() {
                Some(Frame::Took(..)) => {}
                Some(frame) => return frame,
                None => {
                    let mut buf = [0; 32 << 10];
                    let n = (&self.socket).read(&mut buf).unwrap();
                    assert!(n > 0, "the far end is gone");
                    self.came.extend_from_slice(&buf[..n]);
                }
            }
        }
    }
}

/// Runs `with` over a far end whose job announces this port.
fn carried(port: u16, with: impl FnOnce(&mut TestClient)) -> Result<()> {
    let (mine, other) = sys::ipc::pair().unwrap();
    sys::descriptors::limit_time(&mine, 30_000).unwrap();
    let running = std::thread::spawn(move || {
        let announced = || {
            let connect = Connect {
                port,
                ..Connect::default()
            };
            Ok((b"{}".to_vec(), connect))
        };
        let output = other.try_clone().unwrap();
        TunnelServer::new(other, output, &announced)?.run()
    });
    let mut near = TestClient {
        socket: mine,
        came: Vec::new(),
    };
    with(&mut near);
    drop(near);
    running.join().unwrap()
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn connections_carry_bytes_both_ways_and_end_one_side_at_a_time() {
    let (listener, port) = listener();
    carried(port, |near| {
        near.send(&Frame::Ask);
        assert_eq!(near.next(), Frame::About(Ok(b"{}".to_vec())));
        near.send(&Frame::Open(7));
        near.send(&Frame::Open(8));
        let (mut seven, _) = listener.accept().unwrap();
        let (mut eight, _) = listener.accept().unwrap();
        near.send(&Frame::Data(7, b"asked".to_vec()));
        let mut buf = [0; 5];
        seven.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"asked");
        near.send(&Frame::Data(7, Vec::new()));
        assert_eq!(seven.read(&mut buf).unwrap(), 0, "its end is passed on");
        seven.write_all(b"answered").unwrap();
        drop(seven);
        assert_eq!(near.next(), Frame::Data(7, b"answered".to_vec()));
        assert_eq!(near.next(), Frame::Data(7, Vec::new()));
        near.send(&Frame::Over(8, String::new()));
        assert_eq!(eight.read(&mut buf).unwrap(), 0);
        // A number that is free again.
        near.send(&Frame::Open(7));
        listener.accept().unwrap();
    })
    .unwrap();
}

#[test]
fn a_program_that_does_not_read_holds_up_only_itself() {
    let (listener, port) = listener();
    carried(port, |near| {
        near.send(&Frame::Open(1));
        let (_deaf, _) = listener.accept().unwrap();
        let piece = vec![1; FRAME_DATA_MAX];
        // What the kernel takes is granted again: more than a window goes.
        for _ in 0..WINDOW as usize / FRAME_DATA_MAX {
            near.send(&Frame::Data(1, piece.clone()));
        }
        near.send(&Frame::Open(2));
        let (mut other, _) = listener.accept().unwrap();
        near.send(&Frame::Data(2, b"x".to_vec()));
        other.read_exact(&mut [0; 1]).unwrap();
    })
    .unwrap();
}

#[test]
fn more_than_was_granted_ends_the_connection() {
    let (listener, port) = listener();
    carried(port, |near| {
        near.send(&Frame::Open(1));
        let (_deaf, _) = listener.accept().unwrap();
        let piece = vec![1; FRAME_DATA_MAX];
        for _ in 0..4096 {
            near.send(&Frame::Data(1, piece.clone()));
            if let Ok(Some(Frame::Over(1, _))) = Frame::take_frame(&mut near.came) {
                return;
            }
            let mut buf = [0; 4096];
            if sys::ipc::wait_readable(&near.socket, Some(0)) {
                let n = (&near.socket).read(&mut buf).unwrap();
                near.came.extend_from_slice(&buf[..n]);
            }
            while matches!(near.came.first(), Some(b't')) {
                if Frame::take_frame(&mut near.came).unwrap().is_none() {
                    break;
                }
            }
        }
        panic!("it takes everything");
    })
    .unwrap();
}

#[test]
fn nothing_is_called_that_does_not_listen_or_is_another_users() {
    let (free, port) = listener();
    drop(free);
    carried(port, |near| {
        near.send(&Frame::Open(1));
        let Frame::Over(1, why) = near.next() else {
            panic!("it is refused");
        };
        assert!(why.contains("nothing listens"), "{why}");
    })
    .unwrap();
    let (listener, port) = listener();
    let no_program = || Err("the job has not announced a program".to_owned());
    let far = |me: u32| {
        let (input, _) = sys::ipc::pair().unwrap();
        let (output, _) = sys::ipc::pair().unwrap();
        let far = TunnelServer::new(input, output, &no_program).unwrap();
        TunnelServer { me, ..far }.program_of(port)
    };
    let me = sys::users::effective_uid();
    assert!(far(me).unwrap().is_some());
    let why = far(me + 1).unwrap_err();
    assert!(why.contains("another user"), "{why}");
    drop(listener);
}

#[test]
fn garbage_ends_it() {
    let failed = carried(1, |near| {
        (&near.socket).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = (&near.socket).read_to_end(&mut rest);
    });
    assert!(failed.is_err());
}

#[test]
fn an_announcement_of_another_user_or_job_counts_for_nothing() {
    let d = tempfile::tempdir().unwrap();
    let file = d.path().join("7.0.json");
    let found = || announced(&[d.path().join("none"), file.clone()], (7, 0));
    let why = found().unwrap_err();
    assert!(why.contains("not announced"), "{why}");
    std::fs::write(&file, r#"{"job_id":8,"kind":"x","port":1}"#).unwrap();
    assert!(found().unwrap_err().contains("of job 8"));
    std::fs::write(&file, r#"{"job_id":7,"kind":"x","port":1}"#).unwrap();
    assert_eq!(found().unwrap().1.port, 1);
    if sys::users::effective_uid() == 0 {
        std::os::unix::fs::chown(&file, Some(1), Some(1)).unwrap();
        assert!(found().unwrap_err().contains("another user's"));
    }
}
