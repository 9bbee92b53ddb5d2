use crate::support::gateway;
#[tokio::test]
#[ignore]
async fn by_hand() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    std::fs::write("/tmp/mcpws/byhand", format!("URL={}/mcp\nKEY={}\n", gw.url, caller.key().unwrap())).unwrap();
    for _ in 0..240 { tokio::time::sleep(std::time::Duration::from_secs(1)).await; if std::path::Path::new("/tmp/mcpws/stop").exists() { break } }
}
