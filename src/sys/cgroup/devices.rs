//! Device nodes that the tasks of a group may not open: the controller `devices` of version 1; on
//! version 2 a program of a few instructions that the kernel runs at each open.
//!
//! Everything that is not denied stays as it was: rules of the parent groups also apply, and groups
//! below can only deny more. The program is removed with the last group to which it is attached.

use super::values::write;
use crate::model::DeviceNode;
use crate::sys::{ErrorContext, Result, fs};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What a group denies. The program is loaded once for all groups that deny the same.
#[derive(Debug)]
pub struct Denied {
    nodes: Vec<DeviceNode>,
    program: OnceLock<OwnedFd>,
}

impl PartialEq for Denied {
    fn eq(&self, other: &Denied) -> bool {
        self.nodes == other.nodes
    }
}

impl Eq for Denied {}

/// One instruction of a program, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// `bpf(2)`: the arguments for loading a program. Fields that only newer kernels know are zero.
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// `bpf(2)`: the arguments for attaching and detaching a program.
#[repr(C)]
struct Attach {
    group: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

/// Commands, types and flags of `bpf(2)`.
const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_ATTACH: libc::c_int = 8;
const PROGRAM_DETACH: libc::c_int = 9;
const TYPE_DEVICE: u32 = 15;
const ATTACH_DEVICE: u32 = 6;
/// Programs of groups above and below apply as well: a container below has its own.
const ALLOW_MULTI: u32 = 2;

/// Codes of instructions.
const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x57;
const JUMP_IF: u8 = 0x15;
const JUMP_IF_NOT: u8 = 0x55;
const MOVE: u8 = 0xb7;
const EXIT: u8 = 0x95;

/// The kernel's number of a kind of device.
const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;

impl Denied {
    /// The nodes may be in any order and repeated.
    pub fn new(mut nodes: Vec<DeviceNode>) -> Denied {
        nodes.sort_unstable();
        nodes.dedup();
        Denied {
            nodes,
            program: OnceLock::new(),
        }
    }

    /// The denied nodes, each once.
    pub fn nodes(&self) -> &[DeviceNode] {
        &self.nodes
    }

    fn program(&self) -> Result<RawFd> {
        if self.program.get().is_none() {
            let loaded =
                load(&program_of(&self.nodes)).at("load a program for", Path::new("bpf"))?;
            let _ = self.program.set(loaded);
        }
        Ok(self.program.get().expect("it was set").as_raw_fd())
    }
}

/// Reads kind, major and minor number of the device, compares them with each node, and returns 1 if
/// it may be opened.
fn program_of(nodes: &[DeviceNode]) -> Vec<Instruction> {
    let one = |code, to: u8, from: u8, offset, value| Instruction {
        code,
        registers: to | from << 4,
        offset,
        value,
    };
    let mut out = vec![
        one(LOAD_WORD, 2, 1, 0, 0),
        one(AND, 2, 0, 0, 0xffff),
        one(LOAD_WORD, 3, 1, 4, 0),
        one(LOAD_WORD, 4, 1, 8, 0),
    ];
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    for (at, node) in nodes.iter().enumerate() {
        let kind = if node.block { BLOCK } else { CHARACTER };
        let to_the_end = 3 * (nodes.len() - at - 1) + 2;
        let to_the_end = i16::try_from(to_the_end).unwrap_or(i16::MAX);
        out.push(one(JUMP_IF_NOT, 2, 0, 2, kind));
        out.push(one(JUMP_IF_NOT, 3, 0, 1, number(node.major)));
        out.push(one(JUMP_IF, 4, 0, to_the_end, number(node.minor)));
    }
    out.push(one(MOVE, 0, 0, 0, 1));
    out.push(one(EXIT, 0, 0, 0, 0));
    if !nodes.is_empty() {
        out.push(one(MOVE, 0, 0, 0, 0));
        out.push(one(EXIT, 0, 0, 0, 0));
    }
    out
}

fn bpf<T>(command: libc::c_int, what: &T) -> io::Result<libc::c_long> {
    let size = std::mem::size_of::<T>();
    // SAFETY: `what` is a structure in the kernel's form that outlives the call, and the kernel
    // reads no more than `size` bytes of it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(what), size) };
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let descriptor = bpf(
        PROGRAM_LOAD,
        &Load {
            program_type: TYPE_DEVICE,
            count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
            instructions: instructions.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            ..Load::default()
        },
    )?;
    let fd = RawFd::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach(command: libc::c_int, group: &File, program: RawFd) -> io::Result<()> {
    let number = |fd: RawFd| u32::try_from(fd).map_err(io::Error::other);
    let what = Attach {
        group: number(group.as_raw_fd())?,
        program: number(program)?,
        attach_type: ATTACH_DEVICE,
        flags: match command {
            PROGRAM_ATTACH => ALLOW_MULTI,
            _ => 0,
        },
    };
    bpf(command, &what).map(drop)
}

/// Makes the group `dir` deny `new` instead of `old`, with the controller of version 1. Only
/// reading and writing are denied: a container creates nodes, and would be refused all of them if
/// one were denied.
pub(super) fn change_v1(dir: &Path, old: Option<&Denied>, new: Option<&Denied>) -> Result<()> {
    let nodes = |of: Option<&Denied>| of.map_or(Vec::new(), |denied| denied.nodes.clone());
    let (old, new) = (nodes(old), nodes(new));
    let rule = |node: &DeviceNode| {
        let kind = if node.block { 'b' } else { 'c' };
        format!("{kind} {}:{} rw", node.major, node.minor)
    };
    for node in new.iter().filter(|node| !old.contains(node)) {
        write(&dir.join("devices.deny"), &rule(node))?;
    }
    for node in old.iter().filter(|node| !new.contains(node)) {
        write(&dir.join("devices.allow"), &rule(node))?;
    }
    Ok(())
}

/// The same on version 2: the new program is attached before the old one is detached.
pub(super) fn change_v2(dir: &Path, old: Option<&Denied>, new: Option<&Denied>) -> Result<()> {
    let group = File::open(dir).at("open", dir)?;
    let put = |command, denied: Option<&Denied>| match denied {
        Some(denied) => attach(command, &group, denied.program()?).at("deny devices in", dir),
        None => Ok(()),
    };
    put(PROGRAM_ATTACH, new)?;
    put(PROGRAM_DETACH, old)
}

/// Whether groups below `parent` can deny devices; tested with a group that no task joins and a
/// device that no driver has.
pub(super) fn can_deny(parent: &Path, v2: bool) -> bool {
    let dir = parent.join(format!("probe-devices.{}", std::process::id()));
    if fs::mkdir(&dir, 0o755).is_err() {
        return false;
    }
    let none = DeviceNode {
        block: false,
        major: 4095,
        minor: 0,
    };
    let denied = Denied::new(vec![none]);
    let change = if v2 { change_v2 } else { change_v1 };
    let can = change(&dir, None, Some(&denied)).is_ok();
    let _ = fs::remove_dir(&dir);
    can
}

/// What groups share.
pub type SharedDenied = Option<Arc<Denied>>;
