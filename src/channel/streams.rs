//! Many connections within one stream of bytes: the traffic in both directions between a portal and
//! the process that reaches a program of a job. Owns the form of a frame and its limits.
//!
//! A frame is its kind (1 byte), the number of its connection (4 bytes, low byte first), its length
//! (2 bytes, low byte first) and that many bytes. Each end grants the other [`WINDOW`] bytes per
//! connection, and more as it passes them on, so that buffered data is limited and a connection
//! with a slow reader does not delay the others.

/// Maximum number of bytes of a frame beside its head.
pub const FRAME_DATA_MAX: usize = 16 << 10;
/// Number of bytes that may be in transit on one connection, in each direction.
pub const WINDOW: u32 = 256 << 10;
/// Maximum number of connections at a time.
pub const STREAMS_MAX: usize = 128;
const HEAD: usize = 7;

/// A message of one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Asks for the program's description of itself.
    Ask,
    /// That description, as in the program's file; or the reason why there is none.
    About(Result<Vec<u8>, String>),
    /// Opens another connection to the program.
    Open(u32),
    /// Bytes of a connection; no bytes: this end sends no more.
    Data(u32, Vec<u8>),
    /// This end has passed on this many bytes of it.
    Took(u32, u32),
    /// The connection is over, for this reason.
    Over(u32, String),
}

/// The received bytes do not have the form of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidFrame;

impl std::fmt::Display for InvalidFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the other end sent a message that this version does not understand")
    }
}

impl std::error::Error for InvalidFrame {}

impl Frame {
    /// Adds the bytes of a frame.
    ///
    /// # Panics
    /// If there are more than [`FRAME_DATA_MAX`] bytes of data: the caller reads no more at a time.
    pub fn put(&self, out: &mut Vec<u8>) {
        let number;
        let (kind, stream, bytes): (u8, u32, &[u8]) = match self {
            Frame::Ask => (b'?', 0, &[]),
            Frame::About(Ok(text)) => (b'a', 0, cut(text)),
            Frame::About(Err(why)) => (b'n', 0, cut(why.as_bytes())),
            Frame::Open(stream) => (b'o', *stream, &[]),
            Frame::Data(stream, bytes) => (b'd', *stream, bytes),
            Frame::Took(stream, n) => {
                number = n.to_le_bytes();
                (b't', *stream, &number)
            }
            Frame::Over(stream, why) => (b'x', *stream, cut(why.as_bytes())),
        };
        let len = u16::try_from(bytes.len()).ok();
        let len = len.filter(|len| usize::from(*len) <= FRAME_DATA_MAX);
        let len = len.expect("no frame is as long");
        out.push(kind);
        out.extend_from_slice(&stream.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(bytes);
    }

    /// Takes the first complete frame from the received bytes.
    ///
    /// # Errors
    /// The bytes are not a frame.
    pub fn take_frame(came: &mut Vec<u8>) -> Result<Option<Frame>, InvalidFrame> {
        let Some(head) = came.get(..HEAD) else {
            return Ok(None);
        };
        let kind = head[0];
        let stream = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let len = usize::from(u16::from_le_bytes([head[5], head[6]]));
        if len > FRAME_DATA_MAX || !b"?anodtx".contains(&kind) {
            return Err(InvalidFrame);
        }
        if came.len() < HEAD + len {
            return Ok(None);
        }
        let bytes = came[HEAD..HEAD + len].to_vec();
        came.drain(..HEAD + len);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Some(match kind {
            b'?' => Frame::Ask,
            b'a' => Frame::About(Ok(bytes)),
            b'n' => Frame::About(Err(text(bytes))),
            b'o' => Frame::Open(stream),
            b'd' => Frame::Data(stream, bytes),
            b't' => {
                let number = <[u8; 4]>::try_from(&bytes[..]).map_err(|_| InvalidFrame)?;
                Frame::Took(stream, u32::from_le_bytes(number))
            }
            _ => Frame::Over(stream, text(bytes)),
        }))
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(FRAME_DATA_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_however_they_are_cut() {
        let all = [
            Frame::Ask,
            Frame::About(Ok(b"{}".to_vec())),
            Frame::About(Err("no file".into())),
            Frame::Open(1),
            Frame::Data(1, vec![7; FRAME_DATA_MAX]),
            Frame::Data(u32::MAX, Vec::new()),
            Frame::Took(1, WINDOW),
            Frame::Over(1, "it is gone".into()),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|frame| frame.put(&mut bytes));
        for piece in [1, 3, 1000, bytes.len()] {
            let (mut came, mut frames) = (Vec::new(), Vec::new());
            for part in bytes.chunks(piece) {
                came.extend_from_slice(part);
                while let Some(frame) = Frame::take_frame(&mut came).unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, all, "pieces of {piece}");
            assert!(came.is_empty());
        }
    }

    #[test]
    fn what_is_no_frame_is_said_to_be_none() {
        for bad in [
            &b"z\0\0\0\0\0\0"[..],
            b"d\0\0\0\0\xff\xff",
            b"t\0\0\0\0\x01\0a",
            b"GET / HTTP/1.1",
        ] {
            assert_eq!(
                Frame::take_frame(&mut bad.to_vec()),
                Err(InvalidFrame),
                "{bad:?}"
            );
        }
        assert_eq!(Frame::take_frame(&mut b"d\0\0".to_vec()), Ok(None));
        let mut out = Vec::new();
        Frame::Over(1, "x".repeat(99_999)).put(&mut out);
        assert!(out.len() <= HEAD + FRAME_DATA_MAX);
    }
}
