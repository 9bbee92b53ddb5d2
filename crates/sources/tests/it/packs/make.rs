//! Creates packs for tests.

use std::path::Path;

use serde_json::{Value, json};

/// The name of packs made here.
pub(super) const NAME: &str = "vendor.test.made";
/// The only node of these packs.
pub(super) const NODE: &str = "vendor.test.made.node";

pub(super) fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("pack.json")).unwrap()).unwrap()
}

pub(super) fn write_manifest(dir: &Path, manifest: &Value) {
    std::fs::write(dir.join("pack.json"), manifest.to_string()).unwrap();
}

pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => std::fs::copy(entry.path(), to).map(drop).unwrap(),
        }
    }
}

/// Writes a pack whose code is `code`, in the text format.
pub(super) fn coded(dir: &Path, language: &str, code: &str) {
    std::fs::write(dir.join("code.wasm"), wat::parse_str(code).unwrap()).unwrap();
    let runtime = json!({ "language": language, "entry": "code.wasm" });
    write_manifest(dir, &described(&runtime, &json!([{ "typeId": NODE }])));
}

pub(super) fn described(runtime: &Value, nodes: &Value) -> Value {
    json!({
        "name": NAME, "version": "1.0.0", "kind": "node",
        "engines": { "openwop": ">=1.0.0 <2.0.0" }, "runtime": runtime, "nodes": nodes,
    })
}

/// Returns a module of the ABI whose only node is `body`. `$at` and `$len` are the request; `body`
/// leaves the address and the length of the response on the stack. `rest` contains imports, data
/// and functions.
pub(super) fn module(rest: &str, body: &str) -> String {
    format!(
        r#"(module {rest}
  (memory (export "memory") 2)
  (data (i32.const 16) "{NAME}")
  (data (i32.const 256) "{NODE}")
  (global $next (mut i32) (i32.const 65536))
  (func (export "openwop_abi_version") (result i32) i32.const 1)
  (func (export "openwop_pack_name") (result i32 i32) i32.const 16 i32.const {name})
  (func (export "openwop_node_count") (result i32) i32.const 1)
  (func (export "openwop_node_id_at") (param i32) (result i64)
    i64.const {node} i64.const 32 i64.shl i64.const 256 i64.or)
  (func $alloc (export "openwop_alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.add (global.get $next) (local.get $size)))
    (block $enough (loop $more
      (br_if $enough
        (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $enough (i32.eq (memory.grow (i32.const 1)) (i32.const -1)))
      (br $more)))
    (local.get $at))
  (func (export "openwop_free") (param i32 i32))
  (func (export "openwop_node_invoke")
    (param $node i32) (param $at i32) (param $len i32) (result i32 i32)
    (local $to i32)
    {body}))"#,
        name = NAME.len(),
        node = NODE.len(),
    )
}

/// Returns data at 1024 that is the whole response.
pub(super) fn answering(answer: &str) -> String {
    let escaped: String = answer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let data = format!(r#"(data (i32.const 1024) "{escaped}")"#);
    module(&data, &format!("i32.const 1024 i32.const {}", answer.len()))
}

/// A body that returns `{"outcome":"completed","output":…}` with the JSON at `$at`, `$len`.
pub(super) const COMPLETED: &str = r#"
    (local.set $to (call $alloc (i32.add (local.get $len) (i32.const 33))))
    (memory.copy (local.get $to) (i32.const 2048) (i32.const 32))
    (memory.copy (i32.add (local.get $to) (i32.const 32)) (local.get $at) (local.get $len))
    (i32.store8 (i32.add (local.get $to) (i32.add (local.get $len) (i32.const 32))) (i32.const 125))
    (local.get $to) (i32.add (local.get $len) (i32.const 33))"#;
/// The data at the start of [`COMPLETED`]'s output.
pub(super) const BEGINNING: &str =
    r#"(data (i32.const 2048) "{\22outcome\22:\22completed\22,\22output\22:")"#;
