//! The names of AWS's model: the only names that tables and answers may use.
//!
//! `model.txt` is the model as data. What is read from it here knows nothing of the crates under test,
//! so that a wrong name on their side cannot be wrong here too.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::read(include_str!("model.txt")));

/// The model, read once.
pub fn model() -> &'static Model {
    &MODEL
}

/// Members by name.
pub type Members = BTreeMap<String, Type>;

/// See the module.
#[derive(Default)]
pub struct Model {
    pub operations: BTreeMap<String, OperationShape>,
    structures: BTreeMap<String, Members>,
    pub enumerations: BTreeMap<String, Vec<String>>,
    pub errors: BTreeMap<String, ErrorNames>,
}

/// What an operation takes and answers.
#[derive(Default)]
pub struct OperationShape {
    pub input: Members,
    pub output: Members,
}

/// The type of a member, with the names that its parts have in forms and in XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    Integer,
    Boolean,
    Blob,
    List {
        item: String,
        of: Box<Self>,
    },
    Map {
        entry: String,
        key: String,
        value: String,
        of: Box<Self>,
    },
    Structure(String),
}

/// How an error is called, by its shape's name.
pub struct ErrorNames {
    pub namespace: &'static str,
    pub query_code: String,
    pub status: u16,
}

impl Model {
    fn read(text: &str) -> Self {
        let mut model = Self::default();
        let mut heading: (&str, &str) = ("", "");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (words.as_slice(), heading) {
                ([], _) => {}
                ([kind @ ("operation" | "structure" | "enumeration"), name], _) => {
                    heading = (kind, name);
                    model.open(heading);
                }
                ([">" | "<" | "=", ..] | ["-", _], _) => model.add(heading, &words),
                ([kind @ ("error" | "framework"), name, code, status], _) => {
                    let namespace = match *kind {
                        "error" => "com.amazonaws.sqs",
                        _ => "com.amazon.coral.service",
                    };
                    let names = ErrorNames {
                        namespace,
                        query_code: (*code).to_owned(),
                        status: status.parse().unwrap(),
                    };
                    model.errors.insert((*name).to_owned(), names);
                }
                _ => panic!("the model has a line that means nothing: {line}"),
            }
        }
        model
    }

    fn open(&mut self, (kind, name): (&str, &str)) {
        let name = name.to_owned();
        match kind {
            "operation" => drop(self.operations.insert(name, OperationShape::default())),
            "structure" => drop(self.structures.insert(name, Members::new())),
            _ => drop(self.enumerations.insert(name, Vec::new())),
        }
    }

    fn add(&mut self, (_, heading): (&str, &str), words: &[&str]) {
        let members = match words[0] {
            ">" => &mut self.operations.get_mut(heading).unwrap().input,
            "<" => &mut self.operations.get_mut(heading).unwrap().output,
            "=" => self.structures.get_mut(heading).unwrap(),
            _ => {
                let names = self.enumerations.get_mut(heading).unwrap();
                names.push(words[1].to_owned());
                return;
            }
        };
        members.insert(words[1].to_owned(), Type::read(&words[2..]));
    }

    /// The operation of this name.
    pub fn operation(&self, name: &str) -> &OperationShape {
        let operation = self.operations.get(name);
        operation.unwrap_or_else(|| panic!("the model has no operation {name}"))
    }

    /// The members of the structure of this name.
    pub fn structure(&self, name: &str) -> &Members {
        let structure = self.structures.get(name);
        structure.unwrap_or_else(|| panic!("the model has no structure {name}"))
    }

    /// How the error of this shape is called.
    pub fn error(&self, shape: &str) -> &ErrorNames {
        let error = self.errors.get(shape);
        error.unwrap_or_else(|| panic!("the model has no error {shape}"))
    }
}

impl Type {
    fn read(words: &[&str]) -> Self {
        match words {
            ["string"] => Self::String,
            ["integer"] => Self::Integer,
            ["boolean"] => Self::Boolean,
            ["blob"] => Self::Blob,
            ["list", item, of @ ..] => Self::List {
                item: (*item).to_owned(),
                of: Box::new(Self::read(of)),
            },
            ["map", entry, key, value, of @ ..] => Self::Map {
                entry: (*entry).to_owned(),
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                of: Box::new(Self::read(of)),
            },
            [structure] => Self::Structure((*structure).to_owned()),
            _ => panic!("the model has no type {words:?}"),
        }
    }

    /// What a member of this type, called `name` in JSON, is called in forms and in XML.
    pub fn query_name<'n>(&'n self, name: &'n str) -> &'n str {
        match self {
            Self::List { item, .. } => item,
            Self::Map { entry, .. } => entry,
            _ => name,
        }
    }
}
