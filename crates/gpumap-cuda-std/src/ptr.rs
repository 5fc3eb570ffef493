//! In which state space a pointer lies.
//!
//! On the CPU there is one: all memory is global, and a pointer stays what it is.

/// A state space of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// Memory of the device.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of the device that kernels only read.
    Constant,
    /// Memory of a thread.
    Local,
}

/// Whether a generic pointer lies in a state space.
///
/// # Safety
/// The pointer is valid for a `T`.
#[inline(always)]
pub unsafe fn is_in_address_space<T>(ptr: *const T, address_space: AddressSpace) -> bool {
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! ask {
            ($space:literal) => {{
                let is: u32;
                // SAFETY: looks at an address.
                unsafe {
                    core::arch::asm!(
                        concat!("{{ .reg .pred %in; isspacep.", $space, " %in, {1};"),
                        "selp.u32 {0}, 1, 0, %in; }}",
                        out(reg32) is, in(reg64) ptr, options(nostack, nomem)
                    );
                }
                is != 0
            }};
        }
        match address_space {
            AddressSpace::Global => ask!("global"),
            AddressSpace::Shared => ask!("shared"),
            AddressSpace::Constant => ask!("const"),
            AddressSpace::Local => ask!("local"),
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = ptr;
        address_space == AddressSpace::Global
    }
}

macro_rules! conversions {
    ($($(#[$doc:meta])* $name:ident = $cvta:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer is valid for a `T` in that state space.
        #[inline(always)]
        pub unsafe fn $name<T>(ptr: *const T, address_space: AddressSpace) -> *const T {
            #[cfg(target_arch = "nvptx64")]
            {
                macro_rules! convert {
                    ($space:literal) => {{
                        let to: *const T;
                        // SAFETY: computes an address.
                        unsafe {
                            core::arch::asm!(
                                concat!($cvta, $space, ".u64 {0}, {1};"),
                                out(reg64) to, in(reg64) ptr, options(nostack, nomem)
                            );
                        }
                        to
                    }};
                }
                match address_space {
                    AddressSpace::Global => convert!("global"),
                    AddressSpace::Shared => convert!("shared"),
                    AddressSpace::Constant => convert!("const"),
                    AddressSpace::Local => convert!("local"),
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let _ = address_space;
                ptr
            }
        }
    )*};
}

conversions! {
    /// A generic pointer as one of a state space.
    convert_generic_to_specific_address_space = "cvta.to.";
    /// A pointer of a state space as a generic one.
    convert_specific_address_space_to_generic = "cvta.";
}
