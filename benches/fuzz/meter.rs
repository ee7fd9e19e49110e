//! What one input costs: bytes allocated at the worst moment, processor time of this thread. Owns
//! the counting allocator and the watchdog of inputs that never end; judges nothing else.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Most that one input may have allocated beside what was there before.
pub const BYTES_MAX: usize = 256 << 20;
/// Longest that one input may take of a processor.
pub const TIME_MAX: Duration = Duration::from_secs(1);
/// An input that runs for so long by the clock will not end.
const HANGS: Duration = Duration::from_secs(60);

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grew(by: usize) {
    let now = LIVE.fetch_add(by, Relaxed) + by;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Far beyond what is allowed: better to end here than to take the machine along.
        if LIVE.load(Relaxed).saturating_add(layout.size()) > 8 * BYTES_MAX {
            return std::ptr::null_mut();
        }
        grew(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Counts what happens from here on.
pub struct Meter {
    before: usize,
    cpu: Duration,
}

/// What an input took.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub bytes: usize,
    pub cpu: Duration,
}

impl Meter {
    pub fn start() -> Meter {
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let cpu = cpu_time();
        Meter { before, cpu }
    }

    pub fn stop(self) -> Cost {
        let bytes = PEAK.load(Relaxed).saturating_sub(self.before);
        let cpu = cpu_time().saturating_sub(self.cpu);
        Cost { bytes, cpu }
    }
}

impl Cost {
    /// What is too much about it.
    pub fn objection(&self) -> Option<String> {
        if self.bytes > BYTES_MAX {
            return Some(format!("takes {} MB of memory", self.bytes >> 20));
        }
        (self.cpu > TIME_MAX).then(|| format!("takes {} ms", self.cpu.as_millis()))
    }

    pub fn worst(self, other: Cost) -> Cost {
        let bytes = self.bytes.max(other.bytes);
        let cpu = self.cpu.max(other.cpu);
        Cost { bytes, cpu }
    }
}

fn cpu_time() -> Duration {
    let id = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(id).map_or(Duration::ZERO, Duration::from)
}

/// Number of the input being tried, and the words that repeat it.
static NUMBER: AtomicU64 = AtomicU64::new(0);
static WORDS: Mutex<String> = Mutex::new(String::new());

/// Tells the watchdog that another input begins.
pub fn trying(number: u64) {
    NUMBER.store(number, Relaxed);
}

/// Watches over the inputs of a target: one that does not end ends the program, and is named.
pub fn watch(words: String) {
    *WORDS.lock().expect("nobody panics holding it") = words;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            let mut last = 0;
            loop {
                std::thread::sleep(HANGS);
                let now = NUMBER.load(Relaxed);
                if now == last && now != 0 {
                    let words = WORDS.lock().expect("nobody panics holding it");
                    println!("{words} input {now} hangs");
                    std::process::exit(1);
                }
                last = now;
            }
        });
    });
}
