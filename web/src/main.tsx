import { render } from "preact";
import { startStream } from "./api/stream";
import { startKeys } from "./keys";
import { Shell } from "./shell";
import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/controls.css";
import "./styles/parts.css";
import "./styles/overlays.css";
import "./styles/table.css";
import "./styles/chart.css";

const root = document.getElementById("page");
if (root) render(<Shell />, root);
startKeys();
startStream();
