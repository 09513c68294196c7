//! System calls without libc, which do not touch `errno` or other thread-local state. For a child that
//! shares the parent's memory (`spawn`).

use std::arch::asm;

/// Returns the kernel's result: -errno on failure.
///
/// # Safety
/// The arguments must be valid for this system call.
#[cfg(target_arch = "x86_64")]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the kernel's convention on x86-64; it changes only the registers that are named here, and memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Returns the kernel's result: -errno on failure.
///
/// # Safety
/// The arguments must be valid for this system call.
#[cfg(target_arch = "aarch64")]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the kernel's convention on arm64; it changes only the registers that are named here, and memory.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_return_their_error_and_leave_errno_alone() {
        // SAFETY: numbers only.
        unsafe {
            *libc::__errno_location() = 42;
            assert_eq!(
                call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0]),
                -libc::EBADF as isize
            );
            assert_eq!(*libc::__errno_location(), 42);
            assert_eq!(call(libc::SYS_getpid, [0; 5]), std::process::id() as isize);
        }
    }
}
