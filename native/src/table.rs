//! Tables that leave the decoder, as columns: one declaration gives the struct, its rows, and the way to Python.
//!
//! Null is -1, in unsigned columns 2^32 - 1 (`call::NONE`). Times are ns since 1970, frames 1-based.

/// A column that leaves, whatever its type.
#[cfg_attr(test, derive(PartialEq, Debug))]
pub enum Values {
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

macro_rules! from_vec {
    ($($variant:ident $type:ty),*) => {
        $(impl From<Vec<$type>> for Values {
            fn from(values: Vec<$type>) -> Values {
                Values::$variant(values)
            }
        })*
    };
}

from_vec! { I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U32 u32, U64 u64 }

/// All columns of a table, with their names.
pub type Columns = Vec<(&'static str, Values)>;

/// Declare a table as `table! { pub struct Ops of Op { conn: i32, ... } with { dropped: u64, ... } }`: `Op` is a row of it,
/// and what stands behind `with` is kept beside the columns. Names and types are those of the Python table.
macro_rules! table {
    (
        $(#[$about:meta])*
        pub struct $table:ident of $row:ident {
            $($(#[$says:meta])* $column:ident: $type:ty,)*
        }
        $(with { $($(#[$other_says:meta])* $seen:vis $other:ident: $other_type:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Default)]
        pub struct $table {
            $($(#[$says])* pub $column: Vec<$type>,)*
            $($($(#[$other_says])* $seen $other: $other_type,)*)?
        }

        /// A row of it.
        pub struct $row {
            $(pub $column: $type,)*
        }

        impl $table {
            #[inline]
            pub fn push_row(&mut self, row: $row) {
                $(self.$column.push(row.$column);)*
            }

            /// Leave only `rows`, in that order.
            pub fn keep(&mut self, rows: &[u32]) {
                $(self.$column = rows.iter().map(|row| self.$column[*row as usize]).collect();)*
            }

            /// Some of its rows, in that order, as a table of their own; what is kept beside the columns stays here.
            #[allow(clippy::needless_update, reason = "most tables have nothing beside their columns")]
            pub fn rows(&self, rows: &[u32]) -> $table {
                $table {
                    $($column: rows.iter().map(|row| self.$column[*row as usize]).collect(),)*
                    ..Default::default()
                }
            }

            /// Hand over all columns.
            pub fn take_columns(&mut self) -> $crate::table::Columns {
                vec![$((stringify!($column), std::mem::take(&mut self.$column).into())),*]
            }
        }
    };
}

pub(crate) use table;
