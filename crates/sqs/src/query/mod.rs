//! The Query dialect: requests as forms, answers as XML.
//!
//! It is the JSON dialect in other clothes. The same request structs are read, by a deserializer over
//! the parameters of a [`Form`]; the same answer structs are written, by a serializer to XML. What
//! differs between the dialects is one table, `names`: members that are lists or maps are flattened
//! under a singular name, `Attributes` becomes `Attribute.1.Name` and `Attribute.1.Value`.
//!
//! A client that accepts `application/json` gets the tree of the XML as JSON instead, which older
//! clients of AWS rely on; it is neither the XML nor the JSON dialect.

mod form;
mod names;
mod read;
mod reply;
mod tree;
mod write;

pub use form::Form;
pub(crate) use read::from_form;
pub(crate) use tree::to_tree;
pub(crate) use write::to_xml;
