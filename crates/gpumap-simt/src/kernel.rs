//! Declaring kernels once, and launching them with checked arguments.
//!
//! [`kernel_args!`](crate::kernel_args) declares the one by-value parameter a kernel has, and
//! [`kernel!`](crate::kernel!) the kernel. For `nvptx64` that is an entry point of the PTX
//! module; for the host it is a [`Kernel`] that knows its name, the type of its arguments and how to run on the
//! executor. A host that launches it cannot get a name, an order or a type wrong.

use crate::layout::Layout;
#[cfg(not(target_arch = "nvptx64"))]
use crate::layout::signature;
#[cfg(not(target_arch = "nvptx64"))]
use crate::native::each_thread;
#[cfg(not(target_arch = "nvptx64"))]
use core::ffi::c_void;
#[cfg(not(target_arch = "nvptx64"))]
use core::marker::PhantomData;

/// The shape of a one-dimensional launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks in the grid; none launches nothing.
    pub blocks: u32,
    /// Threads per block, 1 to 1024.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
}

impl Grid {
    /// `blocks` blocks of `threads` threads, no dynamic shared memory.
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self {
            blocks,
            threads,
            shared_bytes: 0,
        }
    }

    /// As many blocks of `threads` threads as `n` elements need at one a thread. At most
    /// `2^31 - 1` blocks, a device's limit: beyond it a kernel has to stride.
    pub const fn covering(n: u64, threads: u32) -> Self {
        let blocks = n.div_ceil(threads as u64);
        let limit = i32::MAX as u64;
        Self::new(if blocks < limit { blocks } else { limit } as u32, threads)
    }
}

/// The parameter of a kernel: `repr(C)`, copied by value to the device.
///
/// # Safety
/// The type is `repr(C)`, and its pointers are used by the kernel as its documentation says.
/// [`kernel_args!`](crate::kernel_args) is the way to implement it.
pub unsafe trait KernelArgs: Layout + Copy + 'static {}

/// A kernel as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
#[repr(transparent)]
pub struct Kernel<A: KernelArgs> {
    about: About,
    _args: PhantomData<fn(A)>,
}

/// A kernel without the type of its arguments.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
struct About {
    name: &'static str,
    signature: u64,
    /// Takes the address of the arguments.
    body: unsafe fn(*const c_void),
    by: By,
}

/// What a native block does with the body of a kernel.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Nothing: it needs lanes that wait for each other.
    Lane,
    /// Calls it once for each thread, one after the other.
    Thread,
    /// Calls it once.
    Block,
    /// Calls it once, and there is no code for lanes: it runs so on an executor that checks, too.
    OnlyBlock,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<A: KernelArgs> Kernel<A> {
    /// A kernel of this name. [`kernel!`](crate::kernel!) calls it.
    #[doc(hidden)]
    pub const fn new(name: &'static str, body: unsafe fn(*const c_void), by: By) -> Self {
        Self {
            about: About {
                name,
                signature: signature::<A>(name),
                body,
                by,
            },
            _args: PhantomData,
        }
    }

    /// The same kernel for a host that does not know what the pointers in its arguments lead to: `B` is `A` except
    /// for that, which is checked when this is compiled.
    ///
    /// ```
    /// use gpumap_simt::kernel::Kernel;
    /// use gpumap_simt::{kernel, kernel_args};
    ///
    /// kernel_args! {
    ///     /// Words.
    ///     pub struct Args<W> { pub words: *mut W, pub n: u64 }
    /// }
    /// kernel! {
    ///     /// Looks at nothing.
    ///     pub static NOTHING = fn nothing(args: Args<u32>) { let _ = args; }
    /// }
    /// // SAFETY: it is launched with words of 4 bytes only.
    /// let erased: &Kernel<Args<u8>> = unsafe { NOTHING.erased() };
    /// assert_eq!(erased.signature(), NOTHING.signature());
    /// ```
    ///
    /// Arguments whose fields lie elsewhere, or have other names, do not compile:
    ///
    /// ```compile_fail,E0080
    /// # use gpumap_simt::kernel::Kernel;
    /// # use gpumap_simt::{kernel, kernel_args};
    /// # kernel_args! {
    /// #     /// Words.
    /// #     pub struct Args<W> { pub words: *mut W, pub n: u64 }
    /// # }
    /// # kernel! {
    /// #     /// Looks at nothing.
    /// #     pub static NOTHING = fn nothing(args: Args<u32>) { let _ = args; }
    /// # }
    /// kernel_args! {
    ///     /// The same sizes in another order.
    ///     pub struct Other { pub n: u64, pub words: *mut u8 }
    /// }
    /// // SAFETY: it is not launched.
    /// let erased: &Kernel<Other> = unsafe { NOTHING.erased() };
    /// ```
    ///
    /// # Safety
    /// It is launched with arguments that are an `A`: what the pointers lead to is what they lead to in `A`.
    pub const unsafe fn erased<B: KernelArgs>(&'static self) -> &'static Kernel<B> {
        const {
            assert!(
                A::PLACES == B::PLACES && size_of::<A>() == size_of::<B>(),
                "arguments with the same fields at the same places"
            );
        }
        // SAFETY: a kernel has the type of its arguments only to check them, and is transparent.
        unsafe { &*(&raw const *self).cast::<Kernel<B>>() }
    }

    /// The name of its entry point in the PTX module.
    pub const fn name(&self) -> &'static str {
        self.about.name
    }

    /// The [`signature`] that the PTX must have for it: the host's layout of the arguments.
    pub const fn signature(&self) -> u64 {
        self.about.signature
    }

    /// Its name and its signature: all that finds it in a PTX module.
    pub const fn entry(&self) -> (&'static str, u64) {
        (self.about.name, self.about.signature)
    }

    /// Runs it on the CPU executor and returns when every lane has ended.
    ///
    /// # Errors
    /// A [`Fault`](crate::executor::Fault): the kernel broke a rule of its collectives, hung or
    /// panicked.
    ///
    /// # Safety
    /// The pointers in `args` are valid for what the kernel does with them, for as long as the
    /// call lasts.
    pub unsafe fn run(
        &self,
        executor: &crate::executor::Executor,
        grid: Grid,
        args: A,
    ) -> Result<(), crate::executor::Fault> {
        /// Where the worker threads find the arguments.
        struct Shared(*const c_void);
        // SAFETY: kernel arguments are plain words, and stay until the launch has ended; what their pointers lead to is
        // shared between lanes by design, and the kernel synchronises it.
        unsafe impl Sync for Shared {}
        impl Shared {
            fn at(&self) -> *const c_void {
                self.0
            }
        }

        // Not moved: the copy takes a measurable part of a launch with one key.
        let args = Shared((&raw const args).cast());
        let About { name, body, by, .. } = self.about;
        // SAFETY: the caller vouches for `args`.
        unsafe {
            match by {
                By::Thread if executor.is_native() => {
                    executor.launch_by_block(name, grid, &|| each_thread(|| body(args.at())))
                }
                By::Block if executor.is_native() => {
                    executor.launch_by_block(name, grid, &|| body(args.at()))
                }
                By::OnlyBlock => executor.launch_only_by_block(name, grid, &|| body(args.at())),
                _ => executor.launch(name, grid, &|| body(args.at())),
            }
        }
    }

    /// Launches it on a stream or whatever else can launch.
    ///
    /// # Errors
    /// Those of the launcher.
    ///
    /// # Safety
    /// The pointers in `args` are valid on the launcher's device until the kernel has ended.
    pub unsafe fn launch<L: Launcher>(
        &'static self,
        on: &L,
        grid: Grid,
        args: A,
    ) -> Result<(), L::Error> {
        // SAFETY: passed on.
        unsafe { on.launch(self, grid, args) }
    }
}

/// A kernel in [`LISTED`].
#[doc(hidden)]
#[cfg(gpumap_list)]
#[derive(Debug)]
pub struct Listed {
    /// The package that declares it.
    pub package: &'static str,
    /// The name of its entry point.
    pub name: &'static str,
    /// Its [`signature`].
    pub signature: u64,
}

/// Every kernel that the program is linked with.
#[doc(hidden)]
#[cfg(gpumap_list)]
#[linkme::distributed_slice]
pub static LISTED: [Listed];

/// Puts a kernel on the list, where there is one.
#[doc(hidden)]
#[cfg(gpumap_list)]
#[macro_export]
macro_rules! __list_kernel {
    ($entry:ident, $t:ty) => {
        #[$crate::__linkme::distributed_slice($crate::kernel::LISTED)]
        #[linkme(crate = $crate::__linkme)]
        static LISTED: $crate::kernel::Listed = $crate::kernel::Listed {
            package: env!("CARGO_PKG_NAME"),
            name: stringify!($entry),
            signature: $crate::layout::signature::<$t>(stringify!($entry)),
        };
    };
}

/// As above, without a list.
#[doc(hidden)]
#[cfg(not(gpumap_list))]
#[macro_export]
macro_rules! __list_kernel {
    ($entry:ident, $t:ty) => {};
}

/// What a kernel is declared as.
#[doc(hidden)]
#[macro_export]
macro_rules! __by {
    () => {
        $crate::kernel::By::Lane
    };
    (thread) => {
        $crate::kernel::By::Thread
    };
    (block) => {
        $crate::kernel::By::Block
    };
    // A constant of the crate that declares it.
    ($by:ident) => {
        $by
    };
}

/// Something that launches kernels: a stream of a device.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Launcher {
    /// What can go wrong.
    type Error;

    /// Puts one launch in order after what was launched before.
    ///
    /// # Errors
    /// As the launcher says.
    ///
    /// # Safety
    /// The pointers in `args` are valid on this device until the kernel has ended.
    unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<(), Self::Error>;
}

/// Declares the parameter struct of a kernel: `repr(C)`, `Copy`, and a [`KernelArgs`].
#[macro_export]
macro_rules! kernel_args {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(<$($g:ident),*>)? {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $t:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        $vis struct $name $(<$($g),*>)? {
            $($(#[$field_meta])* $field_vis $field: $t,)*
        }
        // SAFETY: `repr(C)` by this macro; the fields are the kernel's own contract.
        unsafe impl $(<$($g: $crate::layout::Layout + Copy + 'static),*>)?
            $crate::kernel::KernelArgs for $name $(<$($g),*>)? {}
        $crate::layout!($name $(<$($g),*>)? { $($field),* });
    };
}

/// Declares kernels: `pub static NAME = fn entry_point(args: Args) { body }`.
///
/// For `nvptx64` each becomes the entry point `entry_point` of the PTX module and the symbol
/// `gpumap_layout_entry_point` with its [`signature`](crate::layout::signature), for the host the
/// static `NAME` of type [`Kernel<Args>`](Kernel).
///
/// `fn entry_point(args: Args) by block { body }` says that a CPU may also run the body once for each block, on
/// one thread, which then does the work of all threads of the block: where [`native`](crate::native)`::block()`
/// is something, in it and in what it calls.
///
/// `fn entry_point(args: Args) by thread { body }` says that the threads of a block need no other thread of it: they come
/// to no barrier and no collective, have no shared memory, and wait for none. Then a CPU may run them one after the
/// other, without coroutines.
///
/// ```
/// use gpumap_simt::executor::{Config, Executor};
/// use gpumap_simt::kernel::Grid;
/// use gpumap_simt::{kernel, kernel_args, mem, thread};
///
/// kernel_args! {
///     /// Arguments of [`SQUARE`].
///     pub struct SquareArgs {
///         /// `n` numbers.
///         pub numbers: *mut u64,
///         /// How many.
///         pub n: u64,
///     }
/// }
/// kernel! {
///     /// Squares numbers.
///     pub static SQUARE = fn square(args: SquareArgs) by thread {
///         let i = thread::index();
///         if i < args.n {
///             // SAFETY: below `n`, one thread for each.
///             unsafe {
///                 let number = args.numbers.add(i as usize);
///                 mem::store(number, mem::load(number) * mem::load(number));
///             }
///         }
///     }
/// }
/// let mut numbers: Vec<u64> = (0..1000).collect();
/// let args = SquareArgs { numbers: numbers.as_mut_ptr(), n: 1000 };
/// // SAFETY: there are so many.
/// unsafe { SQUARE.run(Executor::global(), Grid::covering(1000, 128), args) }?;
/// assert_eq!(numbers[31], 961);
/// # Ok::<(), gpumap_simt::executor::Fault>(())
/// ```
#[macro_export]
macro_rules! kernel {
    ($($(#[$meta:meta])* $vis:vis static $name:ident = fn $entry:ident($args:ident: $t:ty) $(by $by:ident)? $body:block)*) => {$(
        $(#[$meta])*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        $vis unsafe extern "ptx-kernel" fn $entry($args: $t) $body

        $(#[$meta])*
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[unsafe(export_name = concat!("gpumap_layout_", stringify!($entry)))]
            static SIGNATURE: [u8; 8] =
                $crate::layout::signature::<$t>(stringify!($entry)).to_le_bytes();
        };

        $(#[$meta])*
        #[cfg(not(target_arch = "nvptx64"))]
        $vis static $name: $crate::kernel::Kernel<$t> = {
            unsafe fn $entry(args: *const ::core::ffi::c_void) {
                // SAFETY: the address of such arguments, which a `Kernel` of this type makes sure of.
                let $args: $t = unsafe { *args.cast::<$t>() };
                $body
            }
            $crate::__list_kernel!($entry, $t);
            $crate::kernel::Kernel::new(stringify!($entry), $entry, $crate::__by!($($by)?))
        };
    )*};
}
