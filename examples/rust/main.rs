//! Reads a text one character at a time and prints what the net expects next, as examples/c does.
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null;

/// The structs and functions of lstm.h.
#[repr(C)]
struct Inputs {
    x: *const f32,
    seq_lengths: *const i32,
    h0: *const f32,
    c0: *const f32,
}

#[repr(C)]
struct Outputs {
    probabilities: *mut f32,
    hidden_last: *mut f32,
    cell_last: *mut f32,
}

#[link(name = "lstm", kind = "static")]
extern "C" {
    fn lstm_supported() -> c_int;
    fn lstm_missing_feature() -> *const c_char;
    fn lstm_workspace_bytes(t: i64, n: i64) -> usize;
    fn lstm_state_bytes(n: i64) -> usize;
    fn lstm_state_init(inputs: *const Inputs, state: *mut c_void, workspace: *mut c_void, n: i64) -> c_int;
    fn lstm_step(
        inputs: *const Inputs, outputs: *const Outputs, state: *mut c_void, workspace: *mut c_void, t: i64, n: i64,
    ) -> c_int;
}

const CHARACTERS: usize = 64;
const UNITS: usize = 128;
const FIRST: u8 = b' ';

/// Bytes at a multiple of 64.
struct Block {
    data: *mut u8,
    layout: Layout,
}

impl Block {
    fn new(bytes: usize) -> Block {
        let layout = Layout::from_size_align(bytes.max(1), 64).expect("a size is out of range");
        let data = unsafe { alloc_zeroed(layout) };
        if data.is_null() {
            handle_alloc_error(layout);
        }
        Block { data, layout }
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.data.cast()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        unsafe { dealloc(self.data, self.layout) }
    }
}

/// A sequence that comes letter by letter. The library's code of an error is the `Err`.
struct Reader {
    state: Block,
    workspace: Block,
}

impl Reader {
    fn new() -> Result<Reader, c_int> {
        let (state, workspace) = unsafe { (lstm_state_bytes(1), lstm_workspace_bytes(1, 1)) };
        let mut made = Reader { state: Block::new(state), workspace: Block::new(workspace) };
        let (zeros, no_end) = ([0f32; UNITS], i32::MAX);
        let start = Inputs { x: null(), seq_lengths: &no_end, h0: zeros.as_ptr(), c0: zeros.as_ptr() };
        match unsafe { lstm_state_init(&start, made.state.as_ptr(), made.workspace.as_ptr(), 1) } {
            0 => Ok(made),
            code => Err(code),
        }
    }

    fn step(&mut self, x: &[f32; CHARACTERS]) -> Result<[f32; CHARACTERS], c_int> {
        let mut y = [0f32; CHARACTERS];
        let inputs = Inputs { x: x.as_ptr(), seq_lengths: null(), h0: null(), c0: null() };
        let outputs = Outputs {
            probabilities: y.as_mut_ptr(), hidden_last: std::ptr::null_mut(), cell_last: std::ptr::null_mut(),
        };
        match unsafe { lstm_step(&inputs, &outputs, self.state.as_ptr(), self.workspace.as_ptr(), 1, 1) } {
            0 => Ok(y),
            code => Err(code),
        }
    }
}

fn main() -> Result<(), c_int> {
    if unsafe { lstm_supported() } == 0 {
        let missing = unsafe { CStr::from_ptr(lstm_missing_feature()) };
        eprintln!("this CPU has no {}", missing.to_string_lossy());
        return Err(1);
    }
    let mut reader = Reader::new()?;
    for letter in b"HELLO, WORLD".iter() {
        let mut x = [0f32; CHARACTERS];
        x[(letter - FIRST) as usize] = 1.0;
        let y = reader.step(&x)?;
        let best = (0..CHARACTERS).rev().max_by(|&a, &b| y[a].total_cmp(&y[b])).unwrap_or(0);
        println!("{} -> {} ({:.4})", *letter as char, (FIRST + best as u8) as char, y[best]);
    }
    Ok(())
}
