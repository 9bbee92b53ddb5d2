use crate::support::fixture;

#[tokio::test]
async fn the_document_says_what_is_really_there() {
    let gw = fixture().start().await;
    let reply = gw.anonymous().get("/.well-known/openwop").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("cache-control"), "public, max-age=300");
    insta::assert_snapshot!(reply.text().replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r#"{"protocolVersion":"1.0","protocolVersions":["1.0","2.0"],"preferredVersion":"1.0","supportedEnvelopes":[],"schemaVersions":{},"limits":{"clarificationRounds":0,"schemaRounds":0,"envelopesPerTurn":0,"maxRequestBodyBytes":1048576},"implementation":{"name":"toolcrib","version":"VERSION","vendor":"toolcrib"},"supportedTransports":["rest","mcp"],"toolCatalog":{"supported":true,"sources":["node-pack","workflow","mcp","connector","host-extension"],"sessionLifecycle":true,"compactView":true},"toolHooks":{"supported":true,"prePostEvents":true,"perToolAuthorization":true,"perToolRateLimit":true}}"#);
}

/// The same for every caller, including one with an invalid key.
#[tokio::test]
async fn it_does_not_depend_on_the_caller() {
    let gw = fixture().start().await;
    let open = gw.anonymous().get("/.well-known/openwop").await;
    for caller in [gw.principal("a", ["*"]).await, gw.bearer("tc_junk")] {
        assert_eq!(caller.get("/.well-known/openwop").await.body, open.body);
    }
    let etag = open.header("etag");
    let again = gw.anonymous().with("if-none-match", etag).get("/.well-known/openwop").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[tokio::test]
async fn the_interface_describes_itself() {
    let gw = fixture().start().await;
    let reply = gw.anonymous().get("/v1/openapi.json").await;
    let document = reply.json();
    assert_eq!(document, toolcrib::openapi());
    assert_eq!(document["openapi"], "3.1.0");
    let list = &document["paths"]["/v1/tools"]["get"]["responses"]["200"]["content"];
    let schema = &list["application/json"]["schema"]["$ref"];
    assert_eq!(schema, "#/components/schemas/CatalogList");
    let forms = &document["components"]["schemas"]["CatalogList"]["anyOf"];
    assert_eq!(forms[0]["type"], "array");
    assert_eq!(forms.as_array().unwrap().len(), 3, "the array, the envelope and the compact view");
    assert!(list["application/vnd.openwop.tools+json"].is_object(), "{list}");
    assert!(
        document["components"]["schemas"]["ToolDescriptor"]["properties"]["safetyTier"].is_object()
    );
    // Every reference has a target.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let reference = reference.split('"').next().unwrap();
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// The published schema accepts the served descriptors.
#[tokio::test]
async fn the_schema_of_descriptors_is_published() {
    let gw = fixture().start().await;
    let reply = gw.anonymous().get("/schemas/tool-descriptor.schema.json").await;
    assert_eq!(reply.json(), toolcrib_core::descriptor::json_schema());
    for missing in ["none.json", "none.schema.json", "tool-descriptor", "..%2Fsecret.schema.json"] {
        let reply = gw.anonymous().get(&format!("/schemas/{missing}")).await;
        assert_eq!((reply.status, reply.json()["error"].clone()), (404, "not_found".into()));
    }
    for (name, schema) in toolcrib::schemas() {
        let reply = gw.anonymous().get(&format!("/schemas/{name}.schema.json")).await;
        assert_eq!(reply.header("content-type"), "application/schema+json");
        assert_eq!(reply.json(), schema, "{name}");
    }
}
