/** A browser under the POSIX locale names its language `en-US@posix`, which is none to `Intl`: uPlot would not load. */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
}

export {};
