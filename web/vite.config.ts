import { defineConfig } from "vite";
import preact from "@preact/preset-vite";

// `make serve` (or `rlctl serve`) beside `npm run dev`: the page reloads as you type, the documents are real.
const server = process.env["RLSTUDIO_SERVER"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false, prefreshEnabled: false })],
  base: "./",
  build: {
    outDir: "../src/rlstudio/server/page/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": server, "/login": server } },
});
