//! Misbehaving code, and the capabilities granted to code.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_core::{
    call::{Outcome, UpstreamError, UpstreamErrorKind},
    source::{SourceLimits, pack::PackGrant},
};

use super::{granted, make, refused, spec, structured};
use crate::rig::{Rig, invocation, text};

/// Creates a source of this code; the directory must outlive it.
fn rig(language: &str, code: &str, grants: &[PackGrant]) -> (tempfile::TempDir, Rig) {
    let dir = tempfile::tempdir().unwrap();
    make::coded(dir.path(), language, code);
    let rig = Rig::pack(granted(dir.path(), grants), SourceLimits::default());
    (dir, rig)
}

async fn run(code: &str, arguments: Value) -> Result<Outcome, UpstreamError> {
    let (_dir, rig) = rig("wasm", code, &[]);
    rig.ready().await;
    rig.try_call(make::NODE, arguments).await
}

async fn refused_code(language: &str, code: &str, grants: &[PackGrant]) -> String {
    let dir = tempfile::tempdir().unwrap();
    make::coded(dir.path(), language, code);
    refused(granted(dir.path(), grants)).await
}

#[tokio::test]
async fn code_gets_the_caller_and_the_arguments() {
    let code = make::module(make::BEGINNING, make::COMPLETED);
    let request = structured(&run(&code, json!({ "a": [1, 2.50, "ü"] })).await.unwrap());
    assert_eq!(request["inputs"], json!({ "a": [1, 2.50, "ü"] }));
    assert_eq!(
        (&request["abiVersion"], &request["nodeContext"]["runId"]),
        (&json!(1), &json!("run-1"))
    );
    assert_eq!(request["nodeContext"]["tenantId"], "tenant");
}

/// The loop is stopped at its deadline, and other calls continue. I-45
#[tokio::test]
async fn an_endless_loop_is_stopped_and_takes_nobody_along() {
    let (_dir, endless) = rig("wasm", &make::module("", "(loop $on (br $on)) unreachable"), &[]);
    let (_dir, good) = rig("wasm", &make::answering(r#"{"outcome":"completed","output":1}"#), &[]);
    endless.ready().await;
    good.ready().await;
    let mut call = invocation(json!({}));
    call.timeout = Duration::from_millis(200);
    // More loops than threads and slots for code.
    let loops = (0..80).map(|_| endless.invoke(make::NODE, None, call.clone()));
    let loops = futures_util::future::join_all(loops);
    let (loops, others) = tokio::join!(loops, async {
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.push(good.call(make::NODE, json!({})).await);
        }
        answers
    });
    for result in loops {
        assert_eq!(result.unwrap_err().kind, UpstreamErrorKind::Timeout);
    }
    assert!(others.iter().all(|outcome| structured(outcome) == 1));
    // The threads for code are free again.
    assert_eq!(structured(&good.call(make::NODE, json!({})).await), 1);
}

/// A memory bomb is denied its memory. I-45
#[tokio::test]
async fn code_holds_no_more_memory_than_it_may() {
    let grow = "(loop $on (if (i32.eq (memory.grow (i32.const 8)) (i32.const -1)) \
                (then unreachable)) (br $on)) unreachable";
    let outcome = run(&make::module("", grow), json!({})).await.unwrap();
    assert!(outcome.is_error);
    assert!(text(&outcome).contains("more than the 4194304 bytes of memory"), "{}", text(&outcome));
    let table = "(loop $on (if (i32.eq (table.grow $t (ref.null func) (i32.const 999)) \
                 (i32.const -1)) (then unreachable)) (br $on)) unreachable";
    let outcome = run(&make::module("(table $t 1 funcref)", table), json!({})).await.unwrap();
    assert!(text(&outcome).contains("limit of table elements"), "{}", text(&outcome));
    // The initial memory is limited as well.
    let large = make::module("", "unreachable").replace("\"memory\") 2)", "\"memory\") 1000)");
    assert!(refused_code("wasm", &large, &[]).await.starts_with("invalid_manifest"));
}

/// I-45
#[tokio::test]
async fn what_code_breaks_is_its_own_call() {
    for (body, said) in [
        ("unreachable", "crashed"),
        ("(i32.load (i32.const -4)) unreachable", "crashed"),
        ("(i32.div_u (i32.const 1) (i32.const 0)) unreachable", "crashed"),
        ("(call $deep) unreachable", "crashed"),
    ] {
        let code = make::module("(func $deep (call $deep))", body);
        let outcome = run(&code, json!({})).await.unwrap();
        assert!(outcome.is_error && text(&outcome).contains(said), "{body}: {}", text(&outcome));
    }
    for body in [
        "i32.const -1 i32.const 8",
        "i32.const 131000 i32.const 1000",
        "i32.const 0 i32.const 0",
        "i32.const 16 i32.const 10",
    ] {
        let error = run(&make::module("", body), json!({})).await.unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::Protocol, "{body}");
    }
    let error = run(&make::module("", "i32.const 0 i32.const -1"), json!({})).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::TooLarge);
}

/// I-44
#[tokio::test]
async fn nothing_of_a_call_is_left_for_the_next() {
    let count = r#"
        (i32.store8 (i32.const 1056) (i32.add (i32.const 1) (i32.load8_u (i32.const 1056))))
        i32.const 1024 i32.const 34"#;
    let data = r#"(data (i32.const 1024) "{\22outcome\22:\22completed\22,\22output\22:0}")"#;
    let (_dir, rig) = rig("wasm", &make::module(data, count), &[]);
    for _ in 0..3 {
        assert_eq!(structured(&rig.call(make::NODE, json!({})).await), 1);
    }
}

/// I-43
#[tokio::test]
async fn code_that_asks_for_what_it_was_not_granted_is_refused() {
    let wants = |import: &str| make::module(import, "unreachable");
    let now = wants(r#"(import "openwop" "openwop_now_ms" (func (result i64)))"#);
    let http = wants(r#"(import "toolcrib" "http" (func (param i32 i32) (result i64)))"#);
    let wasi = wants(
        r#"(import "wasi_snapshot_preview1" "fd_write"
            (func (param i32 i32 i32 i32) (result i32)))"#,
    );
    let channel = wants(
        r#"(import "openwop" "openwop_channel_read" (func (param i32 i32) (result i32 i32)))"#,
    );
    let wrong = wants(r#"(import "openwop" "openwop_now_ms" (func (result i32)))"#);
    let all = PackGrant::ALL;
    for (code, grants, why) in [
        (&now, &[][..], r#"add "clock" to `grants`"#),
        (&http, &[PackGrant::Clock][..], r#"add "http" to `grants`"#),
        (&wasi, &all[..], "such as WASI"),
        (&channel, &all[..], "which tools do not have"),
    ] {
        let detail = refused_code("wasm", code, grants).await;
        assert!(detail.starts_with("pack_runtime_requirement_unmet"), "{detail}");
        assert!(detail.contains(why), "{detail}");
    }
    assert!(
        refused_code("wasm", &wrong, &all).await.contains("import of the code has the wrong type")
    );
    let no_abi = "(module (memory (export \"memory\") 1))";
    assert!(refused_code("wasm", no_abi, &[]).await.starts_with("invalid_manifest"));
    let old = make::module("", "unreachable").replace(
        "openwop_abi_version\") (result i32) i32.const 1",
        "openwop_abi_version\") (result i32) i32.const 2",
    );
    assert!(refused_code("wasm", &old, &[]).await.contains("unsupported_abi_version"));
}

#[tokio::test]
async fn granted_functions_work() {
    let imports = format!(
        r#"(import "openwop" "openwop_now_ms" (func $now (result i64)))
           (import "openwop" "openwop_random" (func $random (param i32 i32)))
           (import "openwop" "openwop_log" (func $log (param i32 i32 i32)))
           (data (i32.const 1024) "[0,0]") {}"#,
        make::BEGINNING
    );
    // The clock of the test is stopped at 1970; eight random bytes are never all zero.
    let body = format!(
        r#"(if (i64.eqz (call $now)) (then (i32.store8 (i32.const 1025) (i32.const 49))))
           (call $random (i32.const 1040) (i32.const 8))
           (if (i64.ne (i64.const 0) (i64.load (i32.const 1040)))
             (then (i32.store8 (i32.const 1027) (i32.const 49))))
           (call $log (i32.const 2) (i32.const 1024) (i32.const 5))
           (local.set $at (i32.const 1024)) (local.set $len (i32.const 5)) {}"#,
        make::COMPLETED
    );
    let code = make::module(&imports, &body);
    let (_dir, rig) = rig("wasm", &code, &[PackGrant::Clock, PackGrant::Random, PackGrant::Log]);
    assert_eq!(structured(&rig.call(make::NODE, json!({})).await), json!([1, 1]));
    // Pointers outside its memory end the call, not the server.
    for call in [
        "(call $log (i32.const 0) (i32.const -8) (i32.const 99))",
        "(call $random (i32.const -8) (i32.const 99))",
        "(call $random (i32.const 0) (i32.const 65537))",
    ] {
        let code = make::module(&imports, &format!("{call} unreachable"));
        let all = [PackGrant::Clock, PackGrant::Random, PackGrant::Log];
        let (_dir, rig) = self::rig("wasm", &code, &all);
        assert!(rig.call(make::NODE, json!({})).await.is_error, "{call}");
    }
}

/// Returns a component whose `invoke` is `body`; it leaves a pointer to the pointer and length of
/// the response.
fn component(body: &str) -> String {
    format!(
        r#"(component
  (core module $m
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 8192))
    (data (i32.const 0) "{{\22outcome\22:\22completed\22,\22output\22:[42]}}")
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next)
      (global.set $next (i32.add (global.get $next) (local.get 3))))
    (func (export "invoke") (param i32 i32 i32 i32) (result i32) {body}))
  (core instance $i (instantiate $m))
  (func $invoke (param "node" string) (param "request" string) (result string)
    (canon lift (core func $i "invoke") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc"))))
  (instance $nodes (export "invoke" (func $invoke)))
  (export "toolcrib:pack/nodes@1.0.0" (instance $nodes)))"#
    )
}

#[tokio::test]
async fn components_answer_and_misbehave_like_modules() {
    let answer = "(i32.store (i32.const 4096) (i32.const 0)) \
                  (i32.store (i32.const 4100) (i32.const 37)) (i32.const 4096)";
    let (_dir, good) = rig("wasm-component", &component(answer), &[]);
    assert_eq!(structured(&good.call(make::NODE, json!({})).await), json!([42]));

    let (_dir, endless) = rig("wasm-component", &component("(loop $on (br $on)) unreachable"), &[]);
    endless.ready().await;
    let mut call = invocation(json!({}));
    call.timeout = Duration::from_millis(100);
    let error = endless.invoke(make::NODE, None, call).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Timeout);

    let grow = "(loop $on (if (i32.eq (memory.grow (i32.const 8)) (i32.const -1)) \
                (then unreachable)) (br $on)) unreachable";
    let (_dir, bomb) = rig("wasm-component", &component(grow), &[]);
    let outcome = bomb.call(make::NODE, json!({})).await;
    assert!(text(&outcome).contains("bytes of memory"), "{}", text(&outcome));

    let wasi = r#"(component (import "wasi:cli/environment@0.2.0" (instance)))"#;
    let detail = refused_code("wasm-component", wasi, &PackGrant::ALL).await;
    assert!(detail.starts_with("pack_runtime_requirement_unmet"), "{detail}");
    let clock = r#"(component (import "toolcrib:pack/clock@1.0.0"
        (instance (export "now-ms" (func (result s64))))))"#;
    let detail = refused_code("wasm-component", clock, &[]).await;
    assert!(detail.contains(r#"add "clock""#), "{detail}");
    assert!(
        refused_code("wasm-component", "(component)", &[]).await.starts_with("invalid_manifest")
    );
}

/// Closing a source during a call ends the call.
#[tokio::test]
async fn closing_ends_what_runs() {
    let (_dir, rig) = rig("wasm", &make::module("", "(loop $on (br $on)) unreachable"), &[]);
    rig.ready().await;
    let call = rig.try_call(make::NODE, json!({}));
    let (result, ()) = tokio::join!(call, async {
        tokio::task::yield_now().await;
        rig.source.close().await;
    });
    assert_eq!(result.unwrap_err().kind, UpstreamErrorKind::Died);
    let _ = spec;
}
