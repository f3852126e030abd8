# Builds osjitter with Nix:
#   nix run github:osjitter/osjitter -- run --period 500us
#   nix profile install github:osjitter/osjitter
{
  description = "Measures how late periodic async tasks are and what punctuality costs, and fails CI when jitter gets worse";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs = { self, nixpkgs }:
    let
      systems = [ "aarch64-darwin" "aarch64-linux" "x86_64-darwin" "x86_64-linux" ];
      forEachSystem = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      manifest = builtins.fromTOML (builtins.readFile ./Cargo.toml);

      makePackage = pkgs: pkgs.rustPlatform.buildRustPackage {
        pname = "osjitter";
        version = manifest.workspace.package.version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        cargoBuildFlags = [ "--package" "osjitter" "--package" "osjitter-manpages" "--bins" ];
        buildFeatures = [ "parquet" ];
        # The tests need cgroups, terminals and other programs, which a sandbox does not have. CI runs them.
        doCheck = false;

        nativeBuildInputs = [ pkgs.installShellFiles ];
        # The programs cannot run here if they are built for another processor.
        postInstall = pkgs.lib.optionalString (pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform) ''
          $out/bin/osjitter-manpages $out/share/man/man1
          for shell in bash fish zsh; do
            $out/bin/osjitter completions $shell > osjitter.$shell
            installShellCompletion osjitter.$shell
          done
        '' + ''
          rm $out/bin/osjitter-manpages
        '';

        meta = {
          description = manifest.package.description;
          homepage = manifest.workspace.package.repository;
          license = [ pkgs.lib.licenses.mit pkgs.lib.licenses.asl20 ];
          mainProgram = "osjitter";
          platforms = systems;
        };
      };
    in
    {
      packages = forEachSystem (pkgs: { default = makePackage pkgs; });
      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell { packages = [ pkgs.cargo pkgs.clippy pkgs.rustc pkgs.rustfmt ]; };
      });
    };
}
