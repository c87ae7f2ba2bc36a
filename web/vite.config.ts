import { defineConfig, type Plugin } from "vite";
import preact from "@preact/preset-vite";

// `make serve` (or `rlctl serve`) beside `npm run dev`: the page reloads as you type, the documents are real.
const server = process.env["RLSTUDIO_SERVER"] ?? "http://127.0.0.1:8000";

/** The first view is asked for together with the shell, not after it. */
const preloadFirstView: Plugin = {
  name: "preload-first-view",
  transformIndexHtml: {
    order: "post",
    handler(_html, { bundle }) {
      const first = Object.values(bundle ?? {}).find((chunk) => chunk.type === "chunk" && chunk.facadeModuleId?.endsWith("/views/runs/index.tsx"));
      if (first?.type !== "chunk") return [];
      const files = [first.fileName, ...first.imports].map((file) => ({ tag: "link", injectTo: "head" as const, attrs: { rel: "modulepreload", crossorigin: true, href: `./${file}` } }));
      const styles = [...(first.viteMetadata?.importedCss ?? [])].map((file) => ({ tag: "link", injectTo: "head" as const, attrs: { rel: "stylesheet", crossorigin: true, href: `./${file}` } }));
      return [...files, ...styles];
    },
  },
};

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false, prefreshEnabled: false }), preloadFirstView],
  base: "./",
  build: {
    outDir: "../src/rlstudio/server/page/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // What every view uses is one file: each further file is a further request before the first view.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "shared", test: /src\/(ui|api)\/|src\/(keys|router|theme)|node_modules\/(preact|@preact)\// }] } } },
  },
  server: { proxy: { "/api": server, "/login": server } },
});
