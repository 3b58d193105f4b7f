"""Ladder sets: `build`, `certify` and `publish`. The texts themselves are written in `synth`."""
