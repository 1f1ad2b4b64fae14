"""kubernetes_asyncio: create, list, watch, patch, status, delete; typed models all the way."""

import asyncio

from kubernetes_asyncio import client, config, watch


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        await core.create_namespaced_config_map("default", {"metadata": {"name": "a"}, "data": {"k": "1"}})
        listed = await core.list_namespaced_config_map("default")
        assert "a" in [item.metadata.name for item in listed.items]
        labels = {"app": "web"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
        made = await apps.create_namespaced_deployment("default", {"metadata": {"name": "web"}, "spec": spec})
        assert made.spec.strategy.type == "RollingUpdate", "defaults are filled in"
        patched = await apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 5}})
        assert patched.spec.replicas == 5
        seen = []
        watcher = watch.Watch()
        async with watcher.stream(
            core.list_namespaced_config_map, "default", resource_version=listed.metadata.resource_version
        ) as events:
            await core.patch_namespaced_config_map("a", "default", {"data": {"k": "2"}})
            await core.delete_namespaced_config_map("a", "default")
            async for event in events:
                seen.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    break
        assert seen == [("MODIFIED", "a"), ("DELETED", "a")], seen
        version = await client.VersionApi(api).get_code()
        assert version.git_version.startswith("v1.")


asyncio.run(asyncio.wait_for(main(), 60))
print("ok")
