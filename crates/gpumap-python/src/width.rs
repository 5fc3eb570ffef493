//! Keys by their size: the library compares their bits, so that it is all that matters.

/// Calls a generic function for keys of this item's size, 4 to 64 bytes: its type parameter is an array of words.
macro_rules! for_width {
    ($item:expr, $function:ident($($argument:expr),*)) => {
        $crate::width::for_width!(
            $item, $function($($argument),*), 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        )
    };
    ($item:expr, $function:ident $arguments:tt, $($words:literal)*) => {
        match $item.bytes() {
            $(bytes if bytes == 4 * $words => {
                $crate::width::for_width!(@call $function::<[u32; $words]> $arguments)
            })*
            bytes => Err(pyo3::exceptions::PyValueError::new_err(format!(
                "a key has {bytes} bytes: it may have 4 to 64"
            ))),
        }
    };
    (@call $function:ident::<$key:ty> ($($argument:expr),*)) => {
        $function::<$key>($($argument),*)
    };
}
pub(crate) use for_width;
